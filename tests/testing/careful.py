"""A host that keeps to the rules, in few lines over the core: it shows that every case can be passed."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import anyio
import httpx2 as httpx

from skillquay.core.acting import ActingSkill, Windows
from skillquay.core.approvals import Answer as Kept
from skillquay.core.approvals import Approval, Approvals, Grant, requested_tools
from skillquay.core.context import LocalSkill, render_file, render_skill
from skillquay.core.decisions import Ask, Policy, Refuse, decide, decide_execution, decide_read, granted_tools
from skillquay.core.decisions import decide_recovery as decide_after_failure
from skillquay.core.entries import LIMITS, Manifest, SkillEntry, parse_entry
from skillquay.core.hidden import visible
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.lenient import read_leniently
from skillquay.core.listings import parse_entries
from skillquay.core.registry import Local, LocalScope, Registered, Registry
from skillquay.core.uris import SkillUri
from skillquay.core.verification import accept_dynamic, verify_skill
from skillquay.errors import RefusedError, SkillquayError, UnavailableError, UnlistedFileError, VerificationError
from skillquay.testing import Ability, Answer, Asked, Outcome, Setup, Shown, Subject
from skillquay.wire.contents import received_bytes
from tests.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from skillquay.core.decisions import Decision

__all__ = ["CarefulDriver"]

PAGES = 100
DIRECTORIES = 200
SHOWN = 100_000
SUBJECTS = {Grant.LOAD: Subject.LOAD, Grant.EXECUTE: Subject.EXECUTE, Grant.TOOLS: Subject.TOOLS}


class CarefulDriver:
    abilities = frozenset(Ability)

    @contextlib.asynccontextmanager
    async def start(self, setup: Setup) -> AsyncIterator[Careful]:
        async with httpx.AsyncClient(timeout=None, verify=False, trust_env=False) as http:
            yield Careful(setup, http)


class Careful:
    def __init__(self, setup: Setup, http: httpx.AsyncClient) -> None:
        self.setup = setup
        self.wires = {label: Wire(url, http, setup.deadline) for label, url in setup.servers.items()}
        self.entries: dict[SkillId, SkillEntry] = {}
        self.windows = Windows()
        self.kept = setup.state / "approvals.json"
        self.approvals = Approvals()
        if self.kept.exists():
            for each in json.loads(self.kept.read_text(encoding="utf-8")):
                self.approvals = self.approvals.record(_approval(each))

    # Discovery.

    async def listing(self) -> Sequence[Shown]:
        self.entries = {}
        async with anyio.create_task_group() as tasks:
            for label in self.wires:
                tasks.start_soon(self._discover, label)
        registry, locals_ = self._registry()
        shown: list[Shown] = []
        for name, skill in registry.named():
            if isinstance(skill.identity, Local):
                description = str(locals_[skill.identity.directory][0]["description"])
                shown.append(Shown(server=None, name=name, description=visible(description)))
            else:
                entry = self.entries[skill.identity]
                server = skill.identity.server.label
                shown.append(Shown(server=server, name=name, uri=entry.uri, description=visible(entry.description)))
        return shown

    async def _discover(self, label: str) -> None:
        with contextlib.suppress(SkillquayError, TimeoutError), anyio.fail_after(self.setup.deadline):
            wire = self.wires[label]
            await wire.connect()
            cursor: dict[str, Any] = {}
            for _ in range(PAGES if wire.skills is not None else 0):
                page = await wire.ask("skills/list", cursor)
                listed = page.get("skills")
                accepted, _refused = parse_entries(listed if isinstance(listed, list) else [])
                for entry in accepted:
                    await self._observe(SkillId(server=_label(label), uri=entry.uri), entry)
                following = page.get("nextCursor")
                if not isinstance(following, str):
                    return
                cursor = {"cursor": following}

    async def _observe(self, skill: SkillId, entry: SkillEntry) -> None:
        self.entries[skill] = entry
        self.approvals, ended = self.approvals.observe(skill, entry)
        if ended:
            self._save()

    def _save(self) -> None:
        self.kept.write_text(json.dumps([_plain(each) for each in self.approvals.standing.values()]), encoding="utf-8")

    def _registry(self) -> tuple[Registry, dict[str, tuple[Mapping[str, object], str]]]:
        locals_: dict[str, tuple[Mapping[str, object], str]] = {}
        for path in self.setup.local_skills.glob("*/SKILL.md"):
            data = path.read_bytes()
            read = read_leniently(data, path.parent.name).frontmatter
            locals_[str(path.parent)] = (read.fields, data[read.body_start :].decode())
        registered = [Registered(name=entry.name, identity=skill) for skill, entry in self.entries.items()]
        registered += [
            Registered(name=str(fields["name"]), identity=Local(scope=LocalScope.PROJECT, directory=directory))
            for directory, (fields, _) in locals_.items()
        ]
        return Registry(registered), locals_

    # Loading.

    async def load(self, server: str, uri: str) -> Outcome:
        try:
            skill = SkillId(server=_label(server), uri=SkillUri(uri))
            entry = self.entries.get(skill) or await self._get(skill)
            await self._permit(skill, entry, Grant.LOAD, decide(skill, entry, self._approval(skill), Policy()))
            try:
                loaded = await self._fetch(skill, entry)
            except (VerificationError, UnavailableError):
                fresh = await self._get(skill)
                await self._permit(skill, fresh, Grant.LOAD, decide_after_failure(skill, entry, fresh, Policy()))
                loaded = await self._fetch(skill, fresh)
            self.windows = self.windows.open(ActingSkill(skill=skill, loaded=loaded))
            if requested_tools(loaded.entry):
                with contextlib.suppress(RefusedError):
                    await self._permit(skill, loaded.entry, Grant.TOOLS, Ask(question="Grant its tools?"))
            return Outcome(text=render_skill(loaded, skill))
        except SkillquayError as error:
            return Outcome(refused=error.message)

    async def _get(self, skill: SkillId) -> SkillEntry:
        wire = self.wires[skill.server.label]
        await wire.connect()
        if wire.skills is None:
            raise UnavailableError(f"{skill.server} does not declare skills.")
        entry = parse_entry((await wire.ask("skills/get", {"uri": skill.uri})).get("skill"))
        await self._observe(skill, entry)
        return entry

    async def _fetch(self, skill: SkillId, entry: SkillEntry) -> Any:
        data = await self._read(skill, entry, entry.uri)
        return verify_skill(entry, data) if isinstance(entry.resources, Manifest) else accept_dynamic(entry, data)

    async def _read(self, skill: SkillId, entry: SkillEntry, uri: SkillUri) -> bytes:
        record = entry.resources.find(uri) if isinstance(entry.resources, Manifest) else None
        size = record.size if record else LIMITS.size
        answer = await self.wires[skill.server.label].ask("resources/read", {"uri": uri}, cap=6 * size + 65536)
        return received_bytes(answer, uri, limit=size)

    async def load_named(self, name: str) -> Outcome:
        registry, locals_ = self._registry()
        found = registry.find(name)
        if not isinstance(found, Registered):
            return Outcome(refused=f"{name} means no skill, or several.")
        if isinstance(found.identity, SkillId):
            return await self.load(found.identity.server.label, found.identity.uri)
        directory = found.identity.directory
        return Outcome(text=render_skill(LocalSkill(name=name, directory=directory, body=locals_[directory][1])))

    # Using.

    async def read_file(self, server: str, uri: str, path: str) -> Outcome:
        try:
            acting = self._acting(server, uri)
            return await self._file(acting, acting.locate(path))
        except SkillquayError as error:
            return Outcome(refused=error.message)

    async def _file(self, acting: ActingSkill, uri: SkillUri) -> Outcome:
        data = await self._read(acting.skill, acting.entry, uri)
        if isinstance(acting.entry.resources, Manifest):
            verified = acting.accept(uri, data)
            return Outcome(text=render_file(verified, acting.skill, limit=SHOWN), data=verified.data)
        acting, file = acting.accept_unverified(uri, data)
        self.windows = self.windows.open(acting)
        return Outcome(text=render_file(file, acting.skill, limit=SHOWN), data=file.data)

    async def files(self, server: str, uri: str) -> Sequence[str]:
        acting = self._acting(server, uri)
        root = acting.entry.root
        if isinstance(acting.entry.resources, Manifest):
            return [root.relative(file.uri) for file in acting.entry.resources.files]
        wire = self.wires[server]
        if (wire.skills or {}).get("directoryRead") is not True:
            return []
        found: list[str] = []
        seen: set[SkillUri] = set()
        pending: list[tuple[SkillUri, str | None]] = [(root, None)]
        with contextlib.suppress(SkillquayError, TimeoutError), anyio.fail_after(self.setup.deadline):
            for _ in range(DIRECTORIES):
                if not pending:
                    break
                directory, cursor = pending.pop()
                params = {"uri": directory} | ({"cursor": cursor} if cursor else {})
                page = await wire.ask("resources/directory/read", params)
                kinds = _children(page.get("resources"))
                for child in acting.own_children(directory, kinds):
                    if kinds[child] != "inode/directory":
                        found.append(root.relative(child))
                    elif child not in seen:
                        pending.append((child, None))
                    seen.add(child)
                if isinstance(following := page.get("nextCursor"), str):
                    pending.append((directory, following))
        return found

    async def read_resource(self, server: str, uri: str) -> Outcome:
        try:
            place, label = SkillUri(uri), _label(server)
            if governing := self.windows.governing(label, place):
                self.windows.check_read(label, place)
                return await self._file(governing[0], place)
            decision = decide_read(self.windows.open_windows, label)
            if isinstance(decision, Ask):
                asked = Asked(subject=Subject.READ, server=server, uri=uri, text=decision.question)
                if await self.setup.ask(asked) is Answer.DENY:
                    return Outcome(refused="The person said no.")
            answer = await self.wires[server].ask("resources/read", {"uri": uri})
            return Outcome(text=received_bytes(answer, uri, limit=LIMITS.size).decode("utf-8", "replace"))
        except SkillquayError as error:
            return Outcome(refused=error.message)

    async def may_execute(self, tool: str, arguments: Mapping[str, str]) -> bool:
        for skill, acting in self.windows.open_windows.items():
            held = (skill, acting.entry, self._approval(skill, Grant.EXECUTE))
            try:
                await self._permit(skill, acting.entry, Grant.EXECUTE, decide_execution([held]))
            except RefusedError:
                return False
        return True

    async def granted_tools(self, server: str, uri: str) -> str:
        skill = SkillId(server=_label(server), uri=SkillUri(uri))
        acting = self.windows.open_windows.get(skill)
        return granted_tools(skill, acting.entry, self._approval(skill, Grant.TOOLS)) if acting else ""

    async def prompt(self) -> str:
        lines = [f"- {each.name}: {each.description}" for each in await self.listing()]
        return "\n".join(["<available-skills>", *lines, "</available-skills>"])

    # Asking.

    def _acting(self, server: str, uri: str) -> ActingSkill:
        acting = self.windows.open_windows.get(SkillId(server=_label(server), uri=SkillUri(uri)))
        if acting is None:
            raise UnlistedFileError(f"{uri} is not loaded.", uri=uri)
        return acting

    def _approval(self, skill: SkillId, grant: Grant = Grant.LOAD) -> Approval | None:
        return self.approvals.find(skill, grant)

    async def _permit(self, skill: SkillId, entry: SkillEntry, grant: Grant, decision: Decision) -> None:
        if isinstance(decision, Refuse):
            raise RefusedError(decision.reason, rule=decision.rule)
        if not isinstance(decision, Ask):
            return
        text = f"{decision.question} {visible(entry.name)}: {visible(entry.description)}"
        said = await self.setup.ask(Asked(subject=SUBJECTS[grant], server=skill.server.label, uri=skill.uri, text=text))
        if said is Answer.DENY:
            raise RefusedError("The person said no.", rule="A1")
        if said is Answer.KEEP and isinstance(entry.resources, Manifest):
            self.approvals = self.approvals.record(Approval.of(skill, entry, grant=grant, answer=Kept.ALLOW))
            self._save()


def _label(label: str) -> ServerLabel:
    return ServerLabel(label=label, scope="tests")


def _children(listed: object) -> dict[SkillUri, object]:
    kinds: dict[SkillUri, object] = {}
    for each in listed if isinstance(listed, list) else []:
        with contextlib.suppress(SkillquayError):
            kinds[SkillUri(each["uri"])] = each.get("mimeType")
    return kinds


def _plain(each: Approval) -> dict[str, object]:
    return {
        "server": each.skill.server.label,
        "uri": each.skill.uri,
        "grant": each.grant,
        "pairs": each.pairs,
        "shown": each.shown,
    }


def _approval(each: dict[str, Any]) -> Approval:
    return Approval(
        skill=SkillId(server=_label(each["server"]), uri=SkillUri(each["uri"])),
        grant=Grant(each["grant"]),
        answer=Kept.ALLOW,
        pairs=tuple((uri, digest) for uri, digest in each["pairs"]),
        shown=each["shown"],
    )
