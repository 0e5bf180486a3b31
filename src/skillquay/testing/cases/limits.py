"""More than a host can take: payloads, pages and listings without end (E4, E6, B1, L4)."""

from __future__ import annotations

import json
import random
import zlib
from typing import TYPE_CHECKING

from skillquay.testing.driver import Ability
from skillquay.testing.publisher import CEILING, Publisher, Raw
from skillquay.testing.running import Breach
from skillquay.testing.skills import make_skill, record
from skillquay.testing.stage import Stage, Theme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.testing.publisher import Reply, Request

__all__ = ["CASES"]

CASES = Theme()
_MOST_BYTES = 16 * 1024 * 1024
_PIECE = 64 * 1024
_GIGABYTE = 1024**3
_TOO_MANY_PAGES = 5_000


def _beginning(request: Request, member: str) -> bytes:
    """The beginning of an answer that never ends: everything up to the first character of an endless string."""
    head = {
        "jsonrpc": "2.0",
        "id": request.id,
        "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"},
    }
    text = json.dumps(head)[:-2]
    if member == "skills":
        return f'{text}, "skills": [{{"uri": "'.encode()
    return f'{text}, "contents": [{{"uri": {json.dumps(request.uri)}, "{member}": "'.encode()


def _endless(request: Request, member: str) -> Iterator[bytes]:
    yield _beginning(request, member)
    piece = b"A" * _PIECE
    for _ in range(CEILING // _PIECE):
        yield piece


def _squeezed(request: Request) -> Iterator[bytes]:
    """The same, compressed: each piece is complete in itself, so that one can follow another without end."""
    begun = zlib.compressobj(wbits=31)
    yield begun.compress(_beginning(request, "text")) + begun.flush(zlib.Z_FULL_FLUSH)
    letters = random.Random(1).choices(b"0123456789abcdef", k=_PIECE)  # noqa: S311 - only to compress badly
    packer = zlib.compressobj(wbits=-15)
    piece = packer.compress(bytes(letters)) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(CEILING // _PIECE):
        yield piece


def _payload(name: str, method: str, title: str, **options: object) -> None:
    async def play(stage: Stage) -> None:
        skill, honest = make_skill(), make_skill("honest")
        evil = Publisher(skill)
        member = {"skills/list": "skills", "resources/read": "text"}[method]
        if options.get("blob"):
            member = "blob"

        def answer(request: Request) -> Reply:
            length = _GIGABYTE if options.get("claimed") else None
            if options.get("squeezed"):
                headers = {"Content-Encoding": "gzip"}
                return Raw(body=_squeezed(request), headers=headers, counts=_PIECE)
            return Raw(body=_endless(request, member), length=length)

        evil.on[method] = answer
        async with stage.host(evil=evil, acme=Publisher(honest)) as host:
            await host.works("acme", honest)
            if method == "resources/read":
                await host.refuses("evil", skill)
        if evil.sent >= CEILING:
            raise Breach(f"Your host took {evil.sent // 1024**2} MiB for one answer, and would have taken more.")

    why = "A cap that applies only after everything was read is no cap: the memory is gone by then."
    CASES.add(f"payload-{name}", "B1", title=title, why=why, play=play)


_payload("text", "resources/read", "A read is answered with text without end.")
_payload("blob", "resources/read", "A read is answered with base64 without end.", blob=True)
_payload("claimed", "resources/read", "A read is answered with a gigabyte, and says so.", claimed=True)
_payload("squeezed", "resources/read", "A read is answered with compressed text without end.", squeezed=True)
_payload("listing", "skills/list", "A listing is answered with an entry without end.")


def _pages(name: str, title: str, *, repeated: bool, empty: bool) -> None:
    async def play(stage: Stage) -> None:
        honest, evil = make_skill(), Publisher()

        def page(request: Request) -> Reply:
            if request.number > _TOO_MANY_PAGES:
                return {"skills": []}
            skills = [] if empty else [make_skill(f"skill-{request.number}").entry()]
            return {"skills": skills, "nextCursor": "again" if repeated else str(request.number)}

        evil.on["skills/list"] = page
        async with stage.host(in_a_hurry=True, evil=evil, acme=Publisher(honest)) as host:
            await host.works("acme", honest)
        if evil.count("skills/list") > _TOO_MANY_PAGES:
            raise Breach(f"Your host asked for more than {_TOO_MANY_PAGES} pages of one listing.")

    why = "Every server can say that there is one more page."
    CASES.add(name, "L4", "B2", title=title, why=why, play=play)


_pages("pages-without-end", "A listing has a new cursor on every page.", repeated=False, empty=False)
_pages("pages-that-repeat", "A listing has the same cursor on every page.", repeated=True, empty=False)
_pages("pages-of-nothing", "A listing has page after page with nothing on it.", repeated=False, empty=True)


@CASES.case("huge-page", "L4")
async def huge_page(stage: Stage) -> None:
    """A page has 3,000 skills on it.

    A host may stop somewhere; it must not fall over, or lose the other servers.
    """
    honest, evil = make_skill(), Publisher()
    evil.entries = [make_skill(f"skill-{number}").entry() for number in range(3_000)]
    async with stage.host(evil=evil, acme=Publisher(honest)) as host:
        await host.works("acme", honest)


def _beyond(name: str, title: str, *, files: int, size: int) -> None:
    async def play(stage: Stage) -> None:
        skill, beside = make_skill(), make_skill("beside")
        server = Publisher(skill, beside)
        more = [record(skill.uri_of(f"{number}.md"), b"") for number in range(files - 1)]
        records = [*skill.records(), *more]
        records[-1]["size"] = size - sum(each["size"] for each in records[:-1])
        server.entries[0] = skill.entry(resources=records)
        async with stage.host(acme=server) as host:
            await host.works("acme", beside)
            outcome = await host.load("acme", skill.uri)
        if outcome.text is None and skill.uri in server.reads:
            raise Breach("Your host fetched a skill that it then declined for what its entry says.")

    why = "A host may take more than the limits. One that declines says so from the entry, before it fetches."
    CASES.add(name, "E4", title=title, why=why, play=play)


_beyond("513-files", "A skill has one file more than the limit.", files=513, size=100_000)
_beyond("16-mib-and-1", "A skill has one byte more than the limit.", files=2, size=_MOST_BYTES + 1)
_beyond("a-petabyte", "A manifest claims sizes that add up to a petabyte.", files=2, size=2**50)


@CASES.case("dynamic-grows", "E6", "B1", needs=[Ability.DYNAMIC])
async def dynamic_grows(stage: Stage) -> None:
    """A dynamic skill sends 4 MiB with each file that is read.

    Its entry has nothing to count: the limit applies to what is taken.
    """
    skill = make_skill()
    server = Publisher(skill)
    server.entries = [skill.entry(resources="dynamic")]
    server.files |= {skill.uri_of(f"{number}.md"): b"a" * (4 * 1024**2) for number in range(10)}
    async with stage.host(acme=server) as host:
        await host.works("acme", skill)
        for number in range(10):
            if (await host.read_file("acme", skill, f"{number}.md")).text is None:
                return
    raise Breach("Your host took 40 MiB of one skill whose limit is 16.")


@CASES.case("dynamic-at-once", "E6", "B1", needs=[Ability.DYNAMIC])
async def dynamic_at_once(stage: Stage) -> None:
    """A dynamic skill's SKILL.md never ends.

    No size was listed that could have been held against it.
    """
    skill, beside = make_skill(), make_skill("beside")
    server = Publisher(skill, beside)
    server.entries = [each.entry(resources="dynamic") for each in (skill, beside)]
    server.on["resources/read"] = lambda request: (
        Raw(body=_endless(request, "text")) if request.uri == skill.uri else server.read(request)
    )
    async with stage.host(acme=server) as host:
        await host.works("acme", beside)
        await host.refuses("acme", skill)
    if server.sent >= CEILING:
        raise Breach(f"Your host took {server.sent // 1024**2} MiB for one answer, and would have taken more.")
