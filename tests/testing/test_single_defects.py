"""A careful host with one defect fails the cases about that defect: they see it on its own, not only among many."""

from __future__ import annotations

import contextlib
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from skillquay.core import decisions, listings, verification
from skillquay.core.acting import ActingSkill, Windows
from skillquay.core.approvals import Approval, Grant, requested_tools
from skillquay.core.decisions import Ask, Policy, Proceed
from skillquay.core.entries import DYNAMIC, LIMITS, Manifest, SkillEntry
from skillquay.core.uris import SkillUri
from skillquay.errors import EntryError, UnavailableError, VerificationError
from skillquay.testing import Breach, Case, Outcome, Shown, hostile_cases
from skillquay.testing.cases import directories, limits
from skillquay.wire.contents import received_bytes
from tests.testing import careful
from tests.testing.careful import Careful, CarefulDriver
from tests.testing.naive import Naive, NaiveDriver
from tests.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skillquay.core.identity import SkillId

pytestmark = pytest.mark.anyio

CASES = {case.id: case for case in hostile_cases()}
Spoil = pytest.MonkeyPatch
DEFECTS: list[tuple[Callable[[Spoil], None], tuple[str, ...]]] = []


def fails(*ids: str) -> Callable[[Callable[[Spoil], None]], None]:
    """This defect makes a host fail these cases."""
    return lambda spoil: DEFECTS.append((spoil, ids))


def starting(prefix: str) -> tuple[str, ...]:
    return tuple(name for name in CASES if name.startswith(prefix))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Anything(str):
    """Equal to every digest."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    @classmethod
    def of(cls, _: bytes) -> Anything:
        return cls("sha256:")


@fails("rotated-skill-md", "rotated-on-first-read", "rotated-file", "rotated-file-fresh", "files-swapped")
def no_digest(spoil: Spoil) -> None:
    spoil.setattr(verification, "Digest", Anything)


@fails("digest-of-another", "rotated-by-resource-tool", "ttl-1e300")
def no_digest_elsewhere(spoil: Spoil) -> None:
    spoil.setattr(verification, "Digest", Anything)


@fails("size-too-small", "size-too-large")
def no_size(spoil: Spoil) -> None:
    original = verification.verify_file

    def lax(entry: SkillEntry, uri: SkillUri, data: bytes) -> verification.VerifiedFile:
        assert isinstance(entry.resources, Manifest)
        files = (each._replace(size=len(data)) if each.uri == uri else each for each in entry.resources.files)
        return original(replace(entry, resources=Manifest(files)), uri, data)

    spoil.setattr("skillquay.core.acting.verify_file", lax)
    spoil.setattr(careful, "received_bytes", lambda answer, uri, **_: received_bytes(answer, uri, limit=LIMITS.size))


@fails(*starting("frontmatter-"))
def no_frontmatter(spoil: Spoil) -> None:
    spoil.setattr(verification, "differences", lambda *_: ())


@fails("unlisted-file", "path-walks")
def reads_before_it_looks(spoil: Spoil) -> None:
    def locate(self: ActingSkill, reference: str) -> SkillUri:
        return str.__new__(SkillUri, f"{self.entry.root}/{reference}")

    spoil.setattr(ActingSkill, "locate", locate)


@fails("unlisted-by-resource-tool")
def no_window_for_other_tools(spoil: Spoil) -> None:
    spoil.setattr(Windows, "governing", lambda *_: ())


@fails("same-uri-elsewhere")
def approvals_by_uri_alone(spoil: Spoil) -> None:
    def find(self: Careful, skill: SkillId, grant: Grant = Grant.LOAD) -> Approval | None:
        kept = [each for each in self.approvals.standing.values() if (each.skill.uri, each.grant) == (skill.uri, grant)]
        return replace(kept[0], skill=skill) if kept else None

    spoil.setattr(Careful, "_approval", find)


@fails("nested-rides-in")
def approvals_reach_inside(spoil: Spoil) -> None:
    def decide(self: Careful, skill: SkillId, grant: Grant = Grant.LOAD) -> Approval | None:
        for each in self.approvals.standing.values():
            if each.skill == skill or each.skill.uri.root.contains(skill.uri):
                return Approval.of(skill, self.entries[skill], grant=grant, answer=each.answer)
        return None

    spoil.setattr(Careful, "_approval", decide)


@fails("approved-then-rewritten", "approved-then-added", "approved-then-removed", "approved-then-new-body")
def approvals_of_anything(spoil: Spoil) -> None:
    async def observe(self: Careful, skill: SkillId, entry: SkillEntry) -> None:
        self.entries[skill] = entry

    spoil.setattr(Careful, "_observe", observe)
    spoil.setattr(Approval, "covers", lambda *_: True)


@fails("there-and-back", "dynamic-and-back")
def approvals_that_come_back(spoil: Spoil) -> None:
    async def observe(self: Careful, skill: SkillId, entry: SkillEntry) -> None:
        self.entries[skill] = entry

    spoil.setattr(Careful, "_observe", observe)


@fails("dynamic-kept", "approved-then-dynamic")
def generated_skills_are_approved_for_good(spoil: Spoil) -> None:
    original = decisions.decide

    def decide(skill: SkillId, entry: SkillEntry, approval: Approval | None, policy: Policy) -> Any:
        if entry.resources == DYNAMIC and len(started) > 1:
            return Proceed()
        return original(skill, entry, approval, policy)

    started: list[object] = []
    made = Careful.__init__

    def start(self: Careful, *arguments: Any) -> None:
        started.append(self)
        made(self, *arguments)

    spoil.setattr(Careful, "__init__", start)
    spoil.setattr(careful, "decide", decide)


@fails("denied", "fetched-to-ask")
def fetches_before_it_asks(spoil: Spoil) -> None:
    original = Careful._permit

    async def permit(self: Careful, skill: SkillId, entry: SkillEntry, *rest: Any) -> None:
        await self._read(skill, entry, entry.uri)
        await original(self, skill, entry, *rest)

    spoil.setattr(Careful, "_permit", permit)


@fails("list-and-get-disagree")
def recovers_without_asking(spoil: Spoil) -> None:
    spoil.setattr(careful, "decide_after_failure", lambda *_: Proceed())


@fails("endless-recovery")
def recovers_again_and_again(spoil: Spoil) -> None:
    original = Careful._fetch

    async def fetch(self: Careful, skill: SkillId, entry: SkillEntry) -> Any:
        for _ in range(10):
            try:
                return await original(self, skill, entry)
            except VerificationError:
                entry = await self._get(skill)
        return await original(self, skill, entry)

    spoil.setattr(Careful, "_fetch", fetch)


@fails("changed-while-in-use")
def takes_a_new_entry_for_a_file(spoil: Spoil) -> None:
    original = Careful.read_file

    async def read_file(self: Careful, server: str, uri: str, path: str) -> Outcome:
        outcome = await original(self, server, uri, path)
        if outcome.text is not None:
            return outcome
        skill = self._acting(server, uri).skill
        loaded = await self._fetch(skill, await self._get(skill))
        self.windows = self.windows.open(ActingSkill(skill=skill, loaded=loaded))
        return await original(self, server, uri, path)

    spoil.setattr(Careful, "read_file", read_file)


@fails("read-is-no-load")
def takes_a_read_for_a_load(spoil: Spoil) -> None:
    original = Careful.read_resource

    async def read_resource(self: Careful, server: str, uri: str) -> Outcome:
        await self.load(server, uri)
        self.windows = Windows()
        return await original(self, server, uri)

    spoil.setattr(Careful, "read_resource", read_resource)


@fails("honest-answer-kept")
def keeps_nothing(spoil: Spoil) -> None:
    spoil.setattr(Careful, "_save", lambda _: None)


@fails("run-from-cache")
def takes_its_cache_for_the_persons_own(spoil: Spoil) -> None:
    original = Careful._fetch

    async def fetch(self: Careful, skill: SkillId, entry: SkillEntry) -> Any:
        directory = self.setup.local_skills / entry.name
        directory.mkdir(exist_ok=True)
        (directory / "SKILL.md").write_bytes(await self._read(skill, entry, entry.uri))
        return await original(self, skill, entry)

    spoil.setattr(Careful, "_fetch", fetch)


@fails("run-while-in-use", "run-for-another-skill", "run-after-change", "instruction-files")
def no_gate(spoil: Spoil) -> None:
    spoil.setattr(careful, "decide_execution", lambda _: Proceed())


@fails("run-for-another-skill")
def one_gate_for_all(spoil: Spoil) -> None:
    original = Careful.may_execute
    opened: list[bool] = []

    async def may_execute(self: Careful, tool: str, arguments: Any) -> bool:
        opened.append(any(opened) or await original(self, tool, arguments))
        return opened[-1]

    spoil.setattr(Careful, "may_execute", may_execute)


@fails("allowed-tools", "allowed-tools-grow")
def grants_what_is_asked_for(spoil: Spoil) -> None:
    spoil.setattr(careful, "granted_tools", lambda _, entry, __: requested_tools(entry))


@fails("other-server-read", "other-server-read-again")
def reads_anywhere(spoil: Spoil) -> None:
    spoil.setattr(careful, "decide_read", lambda *_: Proceed())


@fails("forged-end-of-skill", "forged-end-of-file")
def marks_that_can_be_written(spoil: Spoil) -> None:
    def render(skill: Any, origin: SkillId) -> str:
        return f"<skill server='{origin.server}'>\n{skill.body}\n</skill>"

    def render_file(file: Any, origin: SkillId, **_: object) -> str:
        return f"<file server='{origin.server}'>\n{file.data.decode()}\n</file>"

    spoil.setattr(careful, "render_skill", render)
    spoil.setattr(careful, "render_file", render_file)


@fails("origin-shown")
def no_marks(spoil: Spoil) -> None:
    spoil.setattr(careful, "render_skill", lambda skill, _: skill.body)


@fails("hidden-description", "forged-prompt")
def shows_what_it_got(spoil: Spoil) -> None:
    spoil.setattr(careful, "visible", lambda text: text)


@fails("same-name-one-server", "same-name-two-servers", "same-name-as-local")
def plain_names(spoil: Spoil) -> None:
    original = Careful.listing

    async def listing(self: Careful) -> Sequence[Shown]:
        return [replace(each, name=each.name.replace(":", "/").rpartition("/")[2]) for each in await original(self)]

    spoil.setattr(Careful, "listing", listing)


@fails(*starting("entry-n"), "manifest-parent", "file-entry", "plain-path-in-manifest", "manifest-nul")
def one_bad_entry_loses_the_page(spoil: Spoil) -> None:
    original = listings.parse_entries

    def parse_entries(raw: Sequence[object]) -> Any:
        accepted, refused = original(raw)
        if refused:
            raise EntryError("it is not valid.", field="(page)", rule="E5")
        return accepted, refused

    spoil.setattr(careful, "parse_entries", parse_entries)


@fails("undeclared", "directory-undeclared")
def calls_what_was_not_declared(spoil: Spoil) -> None:
    spoil.setattr(Wire, "skills", property(lambda _: {"directoryRead": True}))


@fails("directory-sibling", "directory-look-alike", "directory-scheme")
def follows_every_child(spoil: Spoil) -> None:
    def own_children(_: ActingSkill, __: SkillUri, listed: Iterable[SkillUri]) -> tuple[SkillUri, ...]:
        return tuple(listed)

    spoil.setattr(ActingSkill, "own_children", own_children)


@fails("payload-text", "payload-squeezed", "dynamic-at-once")
def no_cap(spoil: Spoil) -> None:
    original = Wire._post

    async def post(self: Wire, method: str, params: Any, version: str, cap: int = 0) -> dict[str, Any]:
        return await original(self, method, params, version, 10**12)

    spoil.setattr(Wire, "_post", post)


@fails("dynamic-grows")
def no_limit_for_generated_skills(spoil: Spoil) -> None:
    spoil.setattr(verification, "_check_total", lambda *_: None)


@fails("nothing-ahead", "named-in-instructions")
def looks_into_everything(spoil: Spoil) -> None:
    original = Careful.listing

    async def listing(self: Careful) -> Sequence[Shown]:
        shown = await original(self)
        for server in self.wires:
            await self.wires[server].ask("resources/read", {"uri": "skill://refunds/SKILL.md"})
        return shown

    spoil.setattr(Careful, "listing", listing)


@fails("twins-case", "twins-unicode")
def one_cache_for_names_that_look_alike(spoil: Spoil) -> None:
    original = Careful.read_file
    cache: dict[str, Outcome] = {}

    async def read_file(self: Careful, server: str, uri: str, path: str) -> Outcome:
        folded = unicodedata.normalize("NFC", path).casefold()
        if folded not in cache:
            cache[folded] = await original(self, server, uri, path)
        return cache[folded]

    spoil.setattr(Careful, "read_file", read_file)


@fails("honest", "honest-binary", "honest-names", "honest-16-mib", "honest-escapes")
def refuses_files(spoil: Spoil) -> None:
    async def read_file(*_: object) -> Outcome:
        return Outcome(refused="That could be dangerous.")

    spoil.setattr(Careful, "read_file", read_file)


@fails("honest", "honest-binary", "honest-2025")
def changes_bytes(spoil: Spoil) -> None:
    original = Careful.read_file

    async def read_file(self: Careful, server: str, uri: str, path: str) -> Outcome:
        outcome = await original(self, server, uri, path)
        return replace(outcome, data=(outcome.data or b"").replace(b"\r\n", b"\n") + b"\n")

    spoil.setattr(Careful, "read_file", read_file)


@fails("honest-local", "same-name-as-local")
def shows_no_local_skills(spoil: Spoil) -> None:
    original = Careful.listing

    async def listing(self: Careful) -> Sequence[Shown]:
        return [each for each in await original(self) if each.server is not None]

    spoil.setattr(Careful, "listing", listing)


@fails("directory-adds", "directory-honest")
def shows_no_files(spoil: Spoil) -> None:
    async def files(*_: object) -> Sequence[str]:
        return []

    spoil.setattr(Careful, "files", files)


@fails("directory-sibling", "directory-look-alike")
def reads_what_a_directory_lists(spoil: Spoil) -> None:
    original = Careful.files

    async def files(self: Careful, server: str, uri: str) -> Sequence[str]:
        page = await self.wires[server].ask("resources/directory/read", {"uri": uri.removesuffix("/SKILL.md")})
        for child in page["resources"]:
            if child["mimeType"] != "inode/directory":
                await self.wires[server].ask("resources/read", {"uri": child["uri"]})
        return await original(self, server, uri)

    spoil.setattr(Careful, "files", files)


@fails("pages-without-end", "pages-that-repeat", "pages-of-nothing")
def pages_without_bound(spoil: Spoil) -> None:
    spoil.setattr(limits, "_TOO_MANY_PAGES", 30)
    spoil.setattr(careful, "PAGES", 10**9)


@fails("directory-pages", "directory-depth")
def directories_without_bound(spoil: Spoil) -> None:
    spoil.setattr(directories, "_TOO_MANY", 30)
    spoil.setattr(careful, "DIRECTORIES", 10**9)


@fails("undeclared")
def lists_before_it_looks(spoil: Spoil) -> None:
    original = Careful._discover

    async def discover(self: Careful, label: str) -> None:
        await self.wires[label].ask("skills/list", {})
        await original(self, label)

    spoil.setattr(Careful, "_discover", discover)


@fails("flood-of-notices")
def lists_for_each_notice(spoil: Spoil) -> None:
    original = Careful._discover

    async def discover(self: Careful, label: str) -> None:
        for _ in range(51 if label == "evil" else 1):
            await original(self, label)

    spoil.setattr(Careful, "_discover", discover)


@fails("expansion")
def takes_commands_out(spoil: Spoil) -> None:
    spoil.setattr(careful, "render_skill", lambda skill, origin: f"{origin}: {skill.body}".replace("!`", "`"))


@fails("file-gone")
def asks_for_a_missing_file_again(spoil: Spoil) -> None:
    original = Careful._read

    async def read(self: Careful, skill: SkillId, entry: SkillEntry, uri: SkillUri) -> bytes:
        for _ in range(4):
            with contextlib.suppress(UnavailableError):
                return await original(self, skill, entry, uri)
        return await original(self, skill, entry, uri)

    spoil.setattr(Careful, "_read", read)


@fails("nothing-ahead")
def fetches_all_files_at_once(spoil: Spoil) -> None:
    original = Careful._fetch

    async def fetch(self: Careful, skill: SkillId, entry: SkillEntry) -> Any:
        assert isinstance(entry.resources, Manifest)
        for file in entry.resources.files:
            await self._read(skill, entry, file.uri)
        return await original(self, skill, entry)

    spoil.setattr(Careful, "_fetch", fetch)


@fails("nothing-ahead")
def fetches_all_files_with_the_first(spoil: Spoil) -> None:
    original = Careful._file

    async def fetch(self: Careful, acting: ActingSkill, uri: SkillUri) -> Outcome:
        assert isinstance(acting.entry.resources, Manifest)
        for file in acting.entry.resources.files:
            await self._read(acting.skill, acting.entry, file.uri)
        return await original(self, acting, uri)

    spoil.setattr(Careful, "_file", fetch)


@fails("origin-shown")
def tells_the_person_what_the_server_says(spoil: Spoil) -> None:
    spoil.setattr(careful, "visible", lambda text: f"{text} (trustedlabel)")


@fails("forged-end-of-skill")
def cuts_the_text(spoil: Spoil) -> None:
    spoil.setattr(careful, "render_skill", lambda skill, origin: f"{origin}: {skill.body[:-10]}")


@fails("forged-prompt")
def says_nothing_beforehand(spoil: Spoil) -> None:
    async def prompt(_: Careful) -> str:
        return ""

    spoil.setattr(Careful, "prompt", prompt)


@fails("name-of-server-and-skill", "honest-local")
def knows_no_names(spoil: Spoil) -> None:
    async def load_named(*_: object) -> Outcome:
        return Outcome(refused="That name means nothing here.")

    spoil.setattr(Careful, "load_named", load_named)


@fails("name-of-server-and-skill")
def looks_at_the_end_of_a_name(spoil: Spoil) -> None:
    async def load_named(self: Careful, name: str) -> Outcome:
        skill = next(skill for skill, entry in self.entries.items() if name.endswith(entry.name))
        return await self.load(skill.server.label, skill.uri)

    spoil.setattr(Careful, "load_named", load_named)


@fails("other-server-read")
def names_nobody_when_it_asks(spoil: Spoil) -> None:
    spoil.setattr(careful, "decide_read", lambda *_: Ask(question="Read from elsewhere?"))


@fails("fetched-to-ask")
def does_not_say_where_a_skill_comes_from(spoil: Spoil) -> None:
    spoil.setattr(careful, "decide", lambda *_: Ask(question="Load it?"))


@fails("manifest-control")
def believes_everything_and_reads_it(spoil: Spoil) -> None:
    original = Naive.load

    async def load(self: Naive, server: str, uri: str) -> Outcome:
        for each in self._listed(uri):
            await self.read_resource(server, each)
        return await original(self, server, uri)

    spoil.setattr(Naive, "load", load)
    spoil.setattr(CarefulDriver, "start", NaiveDriver.start)


@pytest.mark.parametrize(
    ("spoil", "case"),
    [pytest.param(spoil, CASES[name], id=f"{spoil.__name__}-{name}") for spoil, names in DEFECTS for name in names],
)
async def test_one_defect_is_seen(spoil: Callable[[Spoil], None], case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    with pytest.raises(Breach):
        await case.run(CarefulDriver(), deadline=2.0)


@pytest.mark.parametrize("name", ["twins-case", "forged-end-of-skill", "manifest-nul", "513-files", "run-while-in-use"])
async def test_refusing_more_than_one_must_is_no_breach(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Careful.load

    async def load(self: Careful, server: str, uri: str) -> Outcome:
        entry = next((entry for skill, entry in self.entries.items() if skill.uri == uri), None)
        if entry and (entry.name == "wages" or (isinstance(entry.resources, Manifest) and len(entry.resources) == 3)):
            return Outcome(refused="That looks odd.")
        return await original(self, server, uri)

    async def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(Careful, "load", load)
    monkeypatch.setattr(Careful, "may_execute", never)
    await CASES[name].run(CarefulDriver())
