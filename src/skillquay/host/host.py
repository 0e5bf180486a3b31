"""SkillHost: the skills of a folder, of the user and of servers, found, approved, verified and handed to a model."""

from __future__ import annotations

import os
from collections import deque
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
from anyio import to_thread
from platformdirs import user_state_path

from skillquay.core.context import render_available
from skillquay.core.hidden import shorten
from skillquay.core.identity import SkillId
from skillquay.core.uris import SkillUri
from skillquay.errors import StateError, UnknownSkillError
from skillquay.host.approver import NobodyToAsk
from skillquay.host.budgets import Budgets
from skillquay.host.cache import ContentCache, default_cache_directory
from skillquay.host.configuration import Problem
from skillquay.host.consent import Consent, key_of
from skillquay.host.context import ModelContext
from skillquay.host.directory import Directory, KnownSkill, Standing
from skillquay.host.fetching import Fetching
from skillquay.host.gate import may_execute
from skillquay.host.loading import Loading
from skillquay.host.people import People
from skillquay.host.resources import read_resource
from skillquay.host.roster import Roster
from skillquay.host.search import SkillSearch
from skillquay.host.servers import given_server
from skillquay.host.shelf import Shelf
from skillquay.host.store import Store
from skillquay.host.tools import skill_tools
from skillquay.host.workspace import PROJECT_SKILLS, USER_SKILLS, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import httpx2

    from skillquay.core.identity import ServerLabel
    from skillquay.core.registry import Local
    from skillquay.dialects.templates import Template
    from skillquay.host.approver import Approver
    from skillquay.host.connection import Handshake
    from skillquay.host.context import LoadedSkill
    from skillquay.host.gate import Execution
    from skillquay.host.local import LocalEntry
    from skillquay.host.servers import SkillServer
    from skillquay.host.tools import Tool

__all__ = ["SkillHost", "default_state"]

Value = TypeVar("Value")
_MOST_REPORTS = 20


def default_state() -> str:
    """Where answers are kept unless another place is named: a file in the user's own state directory."""
    return str(user_state_path("skillquay") / "state.sqlite3")


class SkillHost:
    """Everything a host of skills must do, in one object, so that no step can be forgotten.

    Use it as `async with SkillHost(".") as host:`; on entry it looks around. `workspace` is the folder the agent works
    in. `servers` are given in code, by label: a URL, a list of a command and its arguments, or a server object.
    `approver` answers questions; without one, nothing that needs approval is loaded. `state` is a file, `:memory:` or a
    `postgresql://` URL. `handshake="legacy"` is for servers that do not survive being asked for the newest protocol
    first. `trust` settles whether the folder is trusted, without remembering the answer. With `dynamic` off nothing is
    loaded that cannot be verified whole. `scan` are servers whose bare `SKILL.md` resources count as skills.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        servers: Mapping[str, Any] | None = None,
        approver: Approver | None = None,
        dynamic: bool = True,
        state: str | os.PathLike[str] | None = None,
        cache: str | os.PathLike[str] | None = None,
        project_skills: Sequence[str] = PROJECT_SKILLS,
        user_skills: Sequence[str] = USER_SKILLS,
        budgets: Budgets | None = None,
        trust: bool | None = None,
        auth: Callable[[str, str], httpx2.Auth | None] | None = None,
        handshake: Handshake = "auto",
        scan: Collection[str] = (),
    ) -> None:
        self.budgets = budgets or Budgets()
        self.workspace = Workspace(workspace, project_skills=project_skills, user_skills=user_skills)
        self._given = dict(given_server(label, target) for label, target in (servers or {}).items())
        self._approver = approver or NobodyToAsk()
        self._dynamic = dynamic
        self._state = default_state() if state is None else os.fspath(state)
        self._cache = ContentCache(
            default_cache_directory() if cache is None else os.fspath(cache), report=self._report
        )
        self._cache_reports: deque[Problem] = deque(maxlen=_MOST_REPORTS)
        self._trust = trust
        self._auth = auth
        self._handshake = handshake
        self._scan = scan
        self._stack = AsyncExitStack()
        self._problems: dict[str, tuple[Problem, ...]] = {}
        self._directory = Directory((), {}, Standing())
        self._search: SkillSearch | None = None
        self._local: tuple[LocalEntry, ...] = ()
        self._consent: Consent | None = None
        self._loading: Loading | None = None
        self._state_error = StateError("The host is not started. Use it in an async with statement.")
        self._context = ModelContext(self)
        self._refreshing = anyio.Lock()
        self._roster: Roster | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            self._roster = Roster(
                tasks=self._tasks, budgets=self.budgets, auth=self._auth, handshake=self._handshake, scan=self._scan
            )
            stack.push_async_callback(self._close_servers)
            try:
                store = await to_thread.run_sync(Store.open, self._state)
            except StateError as error:
                self._report_state(error)
                self._state_error = error
            else:
                stack.callback(store.close)
                self._consent = Consent(store, self._approver, dynamic=self._dynamic)
                self._loading = Loading(self._consent, Fetching(Shelf(self._cache, tasks=self._tasks)))
            await self.refresh()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    # Looking around

    @property
    def skills(self) -> tuple[KnownSkill, ...]:
        """Every skill that was found, whatever stands against it, in an order that does not depend on arrival."""
        return self._directory.skills

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the user should know: servers that failed, skills that were refused, names that collide."""
        servers = (problem for server in self._running for problem in server.problems)
        found = (each for group in self._problems.values() for each in group)
        return (*found, *self._cache_reports, *servers, *self._directory.problems)

    @property
    def servers(self) -> tuple[ServerLabel, ...]:
        """The servers, by the labels this host gives them."""
        return self._running.labels

    async def refresh(self, *, anew: bool = False) -> None:
        """Look around again. Servers whose listing still counts as current are not asked, unless `anew` (L6)."""
        async with self._refreshing:
            await self._refresh(anew=anew)

    async def _refresh(self, *, anew: bool) -> None:
        if self._consent is not None:
            self._problems.pop("state", None)
        trusted = await self.is_trusted()
        disabled: frozenset[str] = await self._read(Store.disabled, frozenset())
        around = await to_thread.run_sync(partial(self.workspace.look, trusted=trusted))
        problems = around.problems
        if self._consent is None:  # what is the matter is told already; it is not that the folder is not trusted
            problems = tuple(problem for problem in problems if problem.rule != "P6")
        configured = around.configuration.servers
        gone = self._running.update(self._given, configured)
        self._problems["folder"] = (*problems, *self._running.problems)
        for label in gone:
            await to_thread.run_sync(self._cache.forget_server, label)  # (K3)
        if trusted and self.workspace.configuration_path is not None and not around.configuration.problems:
            await to_thread.run_sync(self._cache.keep_only, self.workspace.configuration_path, tuple(configured))
        async with anyio.create_task_group() as asking:
            for server in self._running:
                if key_of(server.label) in disabled:
                    server.rest()
                elif anew or server.is_stale:
                    asking.start_soon(self._discover, server)
        self._local = around.skills
        await self.survey()

    async def survey(self) -> None:
        """Read anew how things stand with each skill: what was approved, denied, disabled."""
        standing = await self._read(Standing.read, Standing())
        served = {
            SkillId(server=server.label, uri=each.entry.identity): each.entry
            for server in self._running
            for each in server.skills.values()
        }
        if self._loading is not None:  # what is in use is known as long as it is, listed or not (W1)
            windows = self._loading.windows.open_windows
            served |= {each.skill: each.entry for each in windows.values() if each.skill not in served}
        self._directory = await to_thread.run_sync(Directory, self._local, served, standing)
        self._search = None

    async def is_trusted(self) -> bool:
        """True when the user has trusted the folder, or there is none (P6)."""
        if self._trust is not None or self.workspace.folder is None:
            return self._trust is not False
        folder = self.workspace.folder
        return await self._read(lambda store: store.is_trusted(folder), False)

    def find(self, name: str) -> KnownSkill:
        """The skill of this plain or qualified name."""
        return self._directory.find(name)

    def get(self, identity: Local | SkillId) -> KnownSkill | None:
        """The skill of this identity, if it is known."""
        return self._directory.get(identity)

    # What the model is told

    @property
    def has_skills(self) -> bool:
        """True when there is a skill the model may load, or a server that could have one it did not list (P2, L3)."""
        return bool(self._directory.available) or any(each.declares_skills for each in self._roster or ())

    def prompt_block(self, *, budget: int = 4000) -> str:
        """The skills the model may load, in at most `budget` tokens; empty when there are none and could be none."""
        return render_available(self._directory.available, budget=budget) if self.has_skills else ""

    @property
    def loaded(self) -> tuple[LoadedSkill, ...]:
        """The skills in the model's context: keep their text from compaction, or release them (P5)."""
        return self._context.loaded

    async def read_skill(self, name: str, *, by_person: bool = False) -> str:
        """Load a skill: its instructions, tagged with their origin, and the list of its files.

        `by_person` is for a skill that a person asked for, as with `/name`: it may be one the model must not load (P7).
        """
        return await self._context.load(self.find(name), by_person=by_person)

    async def read_skill_uri(self, server: str, uri: str, *, by_person: bool = False) -> str:
        """Load a skill by its server and URI, listed or not: that server alone is asked whether it is one (L3, L7)."""
        return await self._context.load(await self.find_uri(server, uri), by_person=by_person)

    async def find_uri(self, server: str, uri: str) -> KnownSkill:
        """The skill at a URI of a server, once `skills/get` on that server has confirmed it."""
        asked = self._enabled(server)
        identity = SkillId(server=asked.label, uri=SkillUri(uri))
        if (known := self._directory.get(identity)) is None:
            received = await self.loading.fresh(asked, identity.uri)
            await self.survey()
            known = self._directory.get(SkillId(server=asked.label, uri=received.entry.identity))
        if known is None:
            raise UnknownSkillError(f"There is no skill at {shorten(uri)}.")
        return known

    async def read_skill_file(self, name: str, path: str) -> str:
        """A supporting file of a skill, by its path from the skill's directory."""
        return await self._context.read_file(self.find(name), path)

    async def read_skill_bytes(self, name: str, path: str) -> bytes:
        """A supporting file as bytes, for the program itself: no tag says any more where they came from."""
        return await self._context.read_bytes(self.find(name), path)

    async def skill_files(self, name: str) -> list[tuple[str, int | None]]:
        """The paths of a skill's files and their sizes, where they are known without fetching."""
        return await self._context.files(self.find(name))

    async def list_skill_files(self, name: str) -> str:
        """The files of a skill, as text for the model."""
        return await self._context.list_files(self.find(name))

    async def read_resource(self, server: str, uri: str) -> str:
        """Another resource of a server, or the list of a directory."""
        return await read_resource(self, self._context, self._enabled(server), uri)

    async def templates(self, server: str) -> tuple[Template, ...]:
        """The ways a server has for people to browse skills it does not list; no model is told of them (I5)."""
        return await self._enabled(server).dialects.templates()

    async def complete_template(self, server: str, template: Template, variable: str, beginning: str = "") -> list[str]:
        """The values that the server proposes for a variable of a template, of those that begin like this."""
        return list(await self._enabled(server).dialects.complete(template, variable, beginning))

    async def search_skills(self, query: str, *, limit: int = 10) -> tuple[KnownSkill, ...]:
        """The skills the model may load that fit the words best: names, descriptions, bodies of local skills."""
        directory = self._directory
        search = self._search
        if search is None:
            search = await to_thread.run_sync(SkillSearch, directory.offered())
            self._search = search if directory is self._directory else None
        return await to_thread.run_sync(search.find, query, limit)

    def release(self, name: str) -> None:
        """The skill left the model's context: its window closes (W1). `name` is the one in `loaded`, or another."""
        loaded = next((each.identity for each in self.loaded if each.name == name), None)
        self._context.release(self.find(name).identity if loaded is None else loaded)

    async def may_execute(self, tool: str, arguments: Mapping[str, object]) -> Execution:
        """Ask this before running any code-execution tool, and before writing files (X1, X4)."""
        return await may_execute(self, self._context, tool, arguments)

    async def granted_tools(self, name: str) -> str:
        """The `allowed-tools` of a skill that may take effect (X2)."""
        return await self._context.granted_tools(self.find(name))

    async def grant_tools(self, name: str) -> str:
        """Ask whether a skill gets the tools it asks for; what is granted then."""
        return await self._context.grant_tools(self.find(name))

    def tools(self) -> tuple[Tool, ...]:
        """The tools the model reads skills with; none when there are no skills and could be none."""
        return skill_tools(self)

    @property
    def people(self) -> People:
        """What people do of their own accord: approve, deny, compare, switch off."""
        return People(self)

    # For the parts of the host

    @property
    def has_state(self) -> bool:
        """False while approvals cannot be kept; no skill of a server is loaded then."""
        return self._consent is not None

    @property
    def consent(self) -> Consent:
        """Who may do what."""
        if self._consent is None:
            raise self._state_error
        return self._consent

    @property
    def loading(self) -> Loading:
        """The served skills in use."""
        if self._loading is None:
            raise self._state_error
        return self._loading

    @property
    def cache(self) -> ContentCache:
        """The verified content that is kept on disk."""
        return self._cache

    @property
    def _running(self) -> Roster:
        """The servers of a host that was started."""
        if self._roster is None:
            raise self._state_error
        return self._roster

    def server_of(self, label: ServerLabel) -> SkillServer:
        """The server of this label. One that was removed is not asked any more."""
        return self._running.of(label)

    def server_named(self, label: str) -> SkillServer:
        """The server of this name."""
        return self._running.named(label)

    def _enabled(self, label: str) -> SkillServer:
        """The same, unless a person disabled it."""
        server = self.server_named(label)
        self._directory.check_enabled(server.label)
        return server

    async def _discover(self, server: SkillServer) -> None:
        await server.discover()
        if self._consent is not None:
            entries = (each.entry for each in server.skills.values())
            try:
                await self._consent.observe(server.label, entries, server.refused_uris)
            except StateError as error:  # nothing of it is loaded: that observes again, and fails again
                self._report_state(error)

    async def _read(self, read: Callable[[Store], Value], otherwise: Value) -> Value:
        """What is kept. Where that cannot be read, nothing of a server is loaded in any case."""
        if self._consent is None:
            return otherwise
        try:
            return await to_thread.run_sync(read, self._consent.store)
        except StateError as error:
            self._report_state(error)
            return otherwise

    def _report_state(self, error: StateError) -> None:
        message = f"{error.message} Until then no skill of a server is loaded."
        self._problems["state"] = (Problem(subject="approvals", message=message, rule=error.rule),)

    def _report(self, problem: Problem) -> None:
        self._cache_reports.append(problem)  # from any thread

    async def _close_servers(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._running.close()
        self._tasks.cancel_scope.cancel()
