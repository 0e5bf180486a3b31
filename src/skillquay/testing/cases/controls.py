"""Honest servers: what every host must take, so that refusing everything is no way to pass (E4, E5, L3, U4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillquay.testing.driver import Ability, Answer, Subject
from skillquay.testing.publisher import MODERN, OLDER, Failure, Publisher
from skillquay.testing.running import Breach
from skillquay.testing.skills import GOOD, make_skill
from skillquay.testing.stage import Stage, Theme

if TYPE_CHECKING:
    from skillquay.testing.publisher import Reply, Request

__all__ = ["CASES"]

CASES = Theme()
_MOST_BYTES = 16 * 1024 * 1024
_TEXT = "Zeile eins\r\nline two\n\n\tno newline at the end: é 日本".encode()


@CASES.case("honest", "V1", "R3")
async def honest(stage: Stage) -> None:
    """An honest server's skill is shown and loaded, and its file arrives as it is.

    A host that refuses everything is safe and useless.
    """
    skill = make_skill(files={"references/guide.md": _TEXT})
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        await host.reads("acme", skill, "references/guide.md")


@CASES.case("honest-2025", "C4")
async def honest_2025(stage: Stage) -> None:
    """A server that speaks only 2025-11-25 is used too.

    Most servers will speak it for years.
    """
    skill = make_skill(files={"guide.md": _TEXT})
    async with stage.host(acme=Publisher(skill, versions=(OLDER,))) as host:
        await host.works("acme", skill)
        await host.reads("acme", skill, "guide.md")


@CASES.case("honest-2026", "C4")
async def honest_2026(stage: Stage) -> None:
    """A server that speaks only 2026-07-28 is used.

    It is the revision the extension is written against.
    """
    skill = make_skill(files={"guide.md": _TEXT})
    async with stage.host(acme=Publisher(skill, versions=(MODERN,))) as host:
        await host.works("acme", skill)
        await host.reads("acme", skill, "guide.md")


@CASES.case("honest-binary", "V1", needs=[Ability.BYTES])
async def honest_binary(stage: Stage) -> None:
    """A file that is not text arrives byte by byte.

    Digests are of raw bytes: whoever decodes on the way breaks them.
    """
    skill = make_skill(files={"assets/flag.bin": bytes(range(256)) * 5, "empty.bin": b""})
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        for path in ("assets/flag.bin", "empty.bin"):
            outcome = await host.read_file("acme", skill, path)
            if outcome.data != skill.files[path]:
                raise Breach(f"Your host gave other bytes for {path} than the server sent: {outcome.refused}")


@CASES.case("honest-names", "U3")
async def honest_names(stage: Stage) -> None:
    """Files whose names need encoding in a URI are found by their names.

    Segments are encoded once and decoded once.
    """
    skill = make_skill(files={"my notes/100% sure.md": b"sure\n", "日本.md": b"harbour\n", "a%2Fb.md": b"literal\n"})
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        for path in ("my notes/100% sure.md", "日本.md"):
            await host.reads("acme", skill, path)


@CASES.case("honest-unlisted", "L3")
async def honest_unlisted(stage: Stage) -> None:
    """A skill that is not listed is loaded from its URI alone.

    A listing may be partial; an empty one proves nothing.
    """
    skill = make_skill()
    server = Publisher(skill)
    server.entries, server.unlisted = [], server.entries
    async with stage.host(acme=server) as host:
        await host.listing()
        await host.loads("acme", skill)


@CASES.case("honest-pages", "L4")
async def honest_pages(stage: Stage) -> None:
    """A listing on three pages is read to its end.

    A page is not the listing.
    """
    skills = [make_skill(f"skill-{number}") for number in range(3)]
    server = Publisher(*skills)

    def page(request: Request) -> Reply:
        number = int(request.params.get("cursor", "0"))
        following = {"nextCursor": str(number + 1)} if number < 2 else {}
        return {"skills": [skills[number].entry()], **following}

    server.on["skills/list"] = page
    async with stage.host(acme=server) as host:
        for skill in skills:
            await host.works("acme", skill)


@CASES.case("honest-scheme", "U4", "L5")
async def honest_scheme(stage: Stage) -> None:
    """A skill under another scheme is a skill like any.

    No scheme is privileged.
    """
    skill = make_skill("owner/repo/skills/refunds", files={"guide.md": _TEXT}, scheme="github")
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        await host.reads("acme", skill, "guide.md")


@CASES.case("honest-512-files", "E4")
async def honest_512_files(stage: Stage) -> None:
    """A skill of exactly 512 files is taken.

    Servers know from the specification what every host accepts.
    """
    skill = make_skill(files={f"files/{number}.md": b"%d\n" % number for number in range(511)})
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        await host.reads("acme", skill, "files/510.md")


@CASES.case("honest-16-mib", "E4", "B1")
async def honest_16_mib(stage: Stage) -> None:
    """A skill of exactly 16 MiB is taken, almost all of it in one file that travels as a blob.

    22 MiB of base64 are not an attack: the specification has every host accept them.
    """
    skill = make_skill()
    rest = _MOST_BYTES - len(skill.files["SKILL.md"])
    skill = skill.with_files({"large.bin": b"\xff" + bytes(rest - 1)})
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        outcome = await host.read_file("acme", skill, "large.bin")
        if outcome.text is None or outcome.data not in {None, skill.files["large.bin"]}:
            raise Breach(f"Your host did not read a file within the limits: {outcome.refused}")


@CASES.case("honest-escapes", "E4", "B1")
async def honest_escapes(stage: Stage) -> None:
    """A text of 4 MiB that JSON makes six times as long is taken.

    What counts is the size of the file, not of the JSON around it.
    """
    skill = make_skill(files={"controls.txt": b"\x01" * (4 * 1024 * 1024)})
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        outcome = await host.read_file("acme", skill, "controls.txt")
        if outcome.text is None or outcome.data not in {None, skill.files["controls.txt"]}:
            raise Breach(f"Your host did not read a file within the limits: {outcome.refused}")


@CASES.case("honest-extras", "E5")
async def honest_extras(stage: Stage) -> None:
    """Fields that nobody knows, in every place, lose nothing.

    The next revision will add some.
    """
    skill = make_skill(fields={"x-level": [1, {"deep": None}], "metadata": {"io.modelcontextprotocol/new": "1"}})
    server = Publisher(skill, extension={"x-later": {"yes": True}})
    records = [{**each, "mimeType": "text/markdown", "x-signed": ["by", "nobody"]} for each in skill.records()]
    server.entries = [skill.entry(resources=records, version="1.10", _meta={"com.example/seen": True})]
    server.on["skills/list"] = lambda _: {"skills": server.entries, "total": 1, "x-more": {}}
    async with stage.host(acme=server) as host:
        await host.works("acme", skill)


@CASES.case("honest-frontmatter", "V2")
async def honest_frontmatter(stage: Stage) -> None:
    """Frontmatter with lists, maps, numbers and other alphabets equals what the entry says of it.

    A comparison that is too strict loses honest skills.
    """
    fields = {
        "license": "Apache-2.0",
        "metadata": {"version": "1.10", "author": "Zoë 日本"},
        "x-order": ["bow", 2, None, True, {"stern": 1.5}],
    }
    skill = make_skill(fields=fields)
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)


@CASES.case("honest-nested", "E7", "A4")
async def honest_nested(stage: Stage) -> None:
    """A nested skill has an entry of its own, and its files belong to the enclosing skill too.

    Publication is flat: nothing in a listing marks nesting.
    """
    inner = make_skill("suite/parts/letters", files={"letter.md": b"Dear harbour master,\n"})
    paths = {f"parts/letters/{path}": data for path, data in inner.files.items()}
    outer = make_skill("suite", files=paths)
    async with stage.host(acme=Publisher(outer, inner)) as host:
        await host.works("acme", outer)
        await host.reads("acme", outer, "parts/letters/letter.md")
        await host.works("acme", inner)
        await host.reads("acme", inner, "letter.md")


@CASES.case("honest-missing", "R1")
async def honest_missing(stage: Stage) -> None:
    """A skill that does not exist is refused in good order, by the old error code and by the new one.

    Revisions differ in the code for what is missing.
    """
    skill = make_skill()
    for code in (-32602, -32002):
        server = Publisher(skill)
        server.unlisted = [make_skill("gone").entry()]
        server.on["resources/read"] = lambda request, server=server, code=code: (  # type: ignore[misc]
            server.read(request) if request.uri in server.files else Failure(code=code)
        )
        async with stage.host(acme=server) as host:
            await host.refuses("acme", make_skill("nowhere"))
            await host.refuses("acme", make_skill("gone"))
            await host.loads("acme", skill)


@CASES.case("honest-update", "V3", "A2")
async def honest_update(stage: Stage) -> None:
    """A skill is replaced by a longer version after it was listed.

    Skills change. Whether a host refreshes the entry on its own or is told to list again, the new version is loaded.
    """
    server = Publisher(make_skill(files={"guide.md": b"old\n"}))
    later = make_skill(body=f"The longer word is {GOOD}.\n" * 100, files={"guide.md": b"new and longer\n"})
    async with stage.host(acme=server) as host:
        await host.listing()
        server.publish(later)
        if (await host.load("acme", later.uri)).text is None:
            await host.listing()
        await host.loads("acme", later, "The longer word")
        await host.reads("acme", later, "guide.md")


@CASES.case("honest-answer-kept", "A1", needs=[Ability.APPROVAL, Ability.KEEPS])
async def honest_answer_kept(stage: Stage) -> None:
    """An answer that was to be kept is kept while nothing changes.

    People who are asked for nothing learn to say yes to everything.
    """
    skill = make_skill()
    server = Publisher(skill)
    for _ in range(2):
        async with stage.host(acme=server) as host:
            await host.works("acme", skill)
    if len(asked := stage.questions(Subject.LOAD)) != 1:
        raise Breach(f"Your host asked {len(asked)} times whether to load a skill that never changed.")


@CASES.case("honest-run", "X1", needs=[Ability.EXECUTION])
async def honest_run(stage: Stage) -> None:
    """Code runs when the person said yes to that for the skill in use.

    A gate that never opens is a wall.
    """
    skill = make_skill()
    stage.answers[Subject.EXECUTE] = Answer.ONCE
    async with stage.host(acme=Publisher(skill)) as host:
        await host.works("acme", skill)
        if not await host.may_execute("bash", command="ls"):
            raise Breach("Your host refused to run code that the person allowed.")


@CASES.case("honest-local", "N2", needs=[Ability.LOCAL, Ability.NAMES])
async def honest_local(stage: Stage) -> None:
    """A skill of the person's own is there beside served ones.

    Served skills take nothing away.
    """
    own, served = make_skill("letters"), make_skill("refunds")
    stage.add_local(own)
    async with stage.host(acme=Publisher(served)) as host:
        await host.works("acme", served)
        names = [shown.name for shown in await host.listing() if shown.server is None]
        if len(names) != 1:
            raise Breach(f"Your host shows {len(names)} skills of the person's own, where there is one.")
        outcome = await host.load_named(names[0])
        if GOOD not in (outcome.text or ""):
            raise Breach(f"Your host did not load the person's own skill: {outcome.refused}")
