"""Servers that break, hang, or talk nonsense, each beside one that works (B2, B1, L6)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from skillquay.testing.publisher import Failure, Publisher, Raw
from skillquay.testing.running import Breach
from skillquay.testing.skills import EVIL, make_skill, skill_md
from skillquay.testing.stage import Stage, Theme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skillquay.testing.publisher import Handler, Reply, Request

__all__ = ["CASES"]

CASES = Theme()
_OTHERS_WORK = "A server that fails is skipped and reported; the others work as if it were not there."
_ON_CONNECT = ("server/discover", "initialize")
_ON_LIST = ("skills/list",)
_ON_GET = ("skills/get",)
_ON_READ = ("resources/read",)


def _broken(name: str, title: str, methods: tuple[str, ...], handler: Handler, *, why: str = _OTHERS_WORK) -> None:
    async def play(stage: Stage) -> None:
        skill, honest = make_skill(), make_skill("honest")
        evil = Publisher(skill, on=dict.fromkeys(methods, handler))
        if "skills/get" in methods:
            evil.entries, evil.unlisted = [], evil.entries
        async with stage.host(in_a_hurry=True, evil=evil, acme=Publisher(honest)) as host:
            await host.works("acme", honest)
            if methods != _ON_LIST:
                await host.refuses("evil", skill)
            await host.loads("acme", honest)

    CASES.add(name, "B2", title=title, why=why, play=play)


def _hang(request: Request) -> Reply:
    request.closing.wait()
    return Failure(code=-32603)


def _spaces(request: Request) -> Iterator[bytes]:
    while not request.closing.wait(0.02):
        yield b" "


def _drip(request: Request) -> Reply:
    return Raw(body=_spaces(request))


def _events(request: Request) -> Iterator[bytes]:
    while not request.closing.wait(0.02):
        yield b": still here\n\n"


def _drip_events(request: Request) -> Reply:
    return Raw(body=_events(request), content_type="text/event-stream")


def _plain(text: str, *, claimed: int | None = None, status: int = 200, kind: str = "application/json") -> Handler:
    data = text.encode("utf-8", "surrogatepass")
    return lambda _: Raw(body=iter([data]), length=claimed or len(data), status=status, content_type=kind)


def _message(change: Callable[[dict[str, object]], object]) -> Handler:
    def answer(request: Request) -> Reply:
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "skills": [], "contents": []}
        data = json.dumps(change({"jsonrpc": "2.0", "id": request.id, "result": result})).encode()
        return Raw(body=iter([data]), length=len(data))

    return answer


_broken("hang-on-connect", "A server never answers the first request.", _ON_CONNECT, _hang)
_broken("hang-on-list", "A server never answers `skills/list`.", _ON_LIST, _hang)
_broken("hang-on-get", "A server never answers `skills/get`.", _ON_GET, _hang)
_broken("hang-on-read", "A server never answers a read.", _ON_READ, _hang)
_broken("drip-on-connect", "The first answer is one space after another.", _ON_CONNECT, _drip)
_broken("drip-on-list", "The answer to `skills/list` is one space after another.", _ON_LIST, _drip)
_broken("drip-on-read", "The answer to a read is one space after another.", _ON_READ, _drip)
_broken("drip-of-events", "The answer to a read is an event stream of comments.", _ON_READ, _drip_events)
_cut = _plain('{"jsonrpc": "2.0", "id": 1, "result": {"skills": [', claimed=100_000)
_broken("cut-on-connect", "The first answer breaks off in the middle.", _ON_CONNECT, _cut)
_broken("cut-on-list", "The listing breaks off in the middle.", _ON_LIST, _cut)
_broken("cut-on-read", "A read breaks off in the middle.", _ON_READ, _cut)
_broken("garbage-on-connect", "The first answer is not JSON.", _ON_CONNECT, _plain("\x00\xff<html>"))
_broken("garbage-on-list", "The listing is not JSON.", _ON_LIST, _plain("]{[\x00"))
_broken("garbage-on-read", "A read is answered with something that is not JSON.", _ON_READ, _plain('{"jsonrpc": '))
_broken("html", "The listing is a web page.", _ON_LIST, _plain("<html>Log in first</html>", kind="text/html"))
_broken("server-error", "The listing is HTTP 500.", _ON_LIST, _plain("Oops", status=500, kind="text/plain"))
_broken("empty-answer", "A read is answered with an empty body.", _ON_READ, lambda _: Raw(body=iter(()), length=0))
_broken("internal-error", "A read is an internal error.", _ON_READ, lambda _: Failure(code=-32603))
_deep = "[" * 100_000 + "]" * 100_000
_broken(
    "deep-listing", "The listing is JSON nested 100,000 levels deep.", _ON_LIST,
    _plain(f'{{"jsonrpc": "2.0", "id": 1, "result": {{"skills": {_deep}}}}}'),
    why="A parser that recurses has the whole process end here.",
)  # fmt: skip
_broken(
    "deep-read", "The answer to a read is JSON nested 100,000 levels deep.", _ON_READ,
    _plain(f'{{"jsonrpc": "2.0", "id": 1, "result": {{"contents": {_deep}}}}}'),
    why="A parser that recurses has the whole process end here.",
)  # fmt: skip
_broken(
    "wrong-id", "The answer has the id of another request.", _ON_LIST, _message(lambda each: {**each, "id": 987654})
)
_broken("no-id", "The answer has no id.", _ON_READ, _message(lambda each: {**each, "id": None}))
_broken("batch", "The answer is a list of answers.", _ON_LIST, _message(lambda each: [each, each]))
_broken("text-result", "The result is a string.", _ON_LIST, _message(lambda each: {**each, "result": "fine"}))
_broken("null-result", "The result of a read is null.", _ON_READ, _message(lambda each: {**each, "result": None}))
_broken(
    "result-and-error", "The answer has a result and an error.", _ON_READ,
    _message(lambda each: {**each, "error": {"code": 1, "message": "no"}}),
)  # fmt: skip
_broken("skills-map", "The listing's `skills` is an object.", _ON_LIST, lambda _: {"skills": {"refunds": {}}})
_broken("skills-null", "The listing's `skills` is null.", _ON_LIST, lambda _: {"skills": None})
_broken("cursor-number", "The listing's cursor is a number.", _ON_LIST, lambda _: {"skills": [], "nextCursor": 7})
_broken("skill-list", "`skills/get` answers with a list.", _ON_GET, lambda _: {"skill": []})
_broken("contents-text", "A read's `contents` is a string.", _ON_READ, lambda _: {"contents": "all of it"})
_broken("contents-none", "A read's `contents` is empty.", _ON_READ, lambda _: {"contents": []})
_broken(
    "contents-number", "A read's text is a number.", _ON_READ, lambda each: {"contents": [{"uri": each.uri, "text": 1}]}
)
_broken(
    "more-input", "A read is answered with a demand for input in place of content.", _ON_READ,
    lambda _: {"resultType": "input_required", "requestState": "x", "inputRequests": {}},
    why="An answer that is not complete has no content in it, whatever it wants from the person.",
)  # fmt: skip


@CASES.case("not-a-number", "B2", "E5")
async def not_a_number(stage: Stage) -> None:
    """A size is NaN, another one is beyond every number.

    Some parsers read what JSON does not allow, and then count with it.
    """
    skill, honest = make_skill(), make_skill("honest")
    evil = Publisher(skill)
    for size in (float("nan"), float("inf")):
        evil.entries = [skill.entry(resources=[{**skill.records()[0], "size": size}])]
        async with stage.host(in_a_hurry=True, evil=evil, acme=Publisher(honest)) as host:
            await host.works("acme", honest)
            await host.refuses("evil", skill)


@CASES.case("gone-after-listing", "B2")
async def gone_after_listing(stage: Stage) -> None:
    """A server is gone between the listing and the load.

    The host says so, and goes on.
    """
    skill, honest = make_skill(), make_skill("honest")
    evil = Publisher(skill)
    async with stage.host(in_a_hurry=True, evil=evil, acme=Publisher(honest)) as host:
        await host.shows("evil", skill)
        stage.crash(evil)
        await host.refuses("evil", skill)
        await host.works("acme", honest)


@CASES.case("nobody-there", "B2")
async def nobody_there(stage: Stage) -> None:
    """Nothing listens where a server should be.

    One line of a configuration must not cost the others.
    """
    honest, gone = make_skill(), Publisher()
    stage.serve(gone)
    stage.crash(gone)
    async with stage.host(in_a_hurry=True, gone=gone, acme=Publisher(honest)) as host:
        await host.works("acme", honest)


@CASES.case("recovers", "B2", "L3")
async def recovers(stage: Stage) -> None:
    """A server fails at the first listing, and answers the second.

    A failure is not an answer: it must not be remembered as an empty listing.
    """
    skill = make_skill()
    server = Publisher(skill)
    server.on["skills/list"] = lambda _: Failure(code=-32603)
    async with stage.host(in_a_hurry=True, acme=server) as host:
        await host.listing()
        del server.on["skills/list"]
        await host.works("acme", skill)


@CASES.case("flood-of-notices", "B2", "L6")
async def flood_of_notices(stage: Stage) -> None:
    """Before the listing come 5,000 notices that the listing has changed.

    A host that lists again for each of them attacks the server, and itself.
    """
    skill, honest = make_skill(), make_skill("honest")
    evil = Publisher(skill)
    notice = b'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}\n\n'

    def flood(request: Request) -> Reply:
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "skills": evil.entries}
        answer = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": result})
        pieces = [notice * 500] * 10 + [f"event: message\ndata: {answer}\n\n".encode()]
        return Raw(body=iter(pieces), content_type="text/event-stream")

    evil.on["skills/list"] = flood
    async with stage.host(in_a_hurry=True, evil=evil, acme=Publisher(honest)) as host:
        await host.works("acme", honest)
        await host.listing()
    if (times := evil.count("skills/list")) > 50:
        raise Breach(f"Your host listed {times} times because of a flood of notices.")


def _ttl(name: str, value: object) -> None:
    async def play(stage: Stage) -> None:
        skill, honest = make_skill(), make_skill("honest")
        evil = Publisher(skill)
        evil.on["skills/list"] = lambda _: {"skills": evil.entries, "ttlMs": value, "cacheScope": 7}
        evil.on["resources/read"] = lambda each: {**_content(evil.read(each)), "ttlMs": value, "cacheScope": "public"}
        async with stage.host(in_a_hurry=True, evil=evil, acme=Publisher(honest)) as host:
            await host.works("acme", honest)
            await host.load("evil", skill.uri)
        evil.files[skill.uri] = skill_md(skill.frontmatter, f"The word is {EVIL}.\n")
        async with stage.host(in_a_hurry=True, evil=evil, acme=Publisher(honest)) as host:
            await host.works("acme", honest)
            await host.never_loads("evil", skill)

    title = f"Answers stay fresh for {name} milliseconds."
    why = (
        "A time to live is a hint about when to ask again: it verifies nothing, and must not be counted on to be sane."
    )
    CASES.add(f"ttl-{name}", "L6", "V1", title=title, why=why, play=play)


def _content(reply: Reply) -> dict[str, object]:
    assert isinstance(reply, dict)
    return reply


_ttl("minus-1", -1)
_ttl("1e300", 1e300)
_ttl("text", "soon")
_ttl("null", None)
