"""Who sees what: one predicate, asked once a request, governs every method alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client.subscriptions import ResourceUpdated

from skillquay.server.extension import Skills
from tests.server.asking import MODERN, OLDER, asking, low_level, rewrite, until, write_skill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from mcp.server.context import ServerRequestContext

    from skillquay.core.catalog import Where
    from skillquay.core.entries import SkillEntry
    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

Context = "ServerRequestContext[Any, Any]"


def client_name(ctx: ServerRequestContext[Any, Any]) -> str:
    assert ctx.session.client_params is not None
    return ctx.session.client_params.client_info.name


def by_name(ctx: ServerRequestContext[Any, Any]) -> Where:
    """The boss sees everything, everybody else what is not for a team, or for theirs."""
    name = client_name(ctx)
    return lambda entry: name == "boss" or entry.frontmatter.get("team", name) == name


async def by_name_later(ctx: ServerRequestContext[Any, Any]) -> Where:
    await anyio.lowlevel.checkpoint()
    return by_name(ctx)


PREDICATES = [by_name, by_name_later]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """For everybody: open. For red: its own, one nested in it for blue. For blue: one with a nested one for red."""
    root = tmp_path / "skills"
    write_skill(root, "open", {"a.md": b"a"})
    red = write_skill(root, "red", {"docs/plan.md": b"red"}, "team: red")
    write_skill(red, "inner-blue", {"b.md": b"b"}, "team: blue")
    blue = write_skill(root, "blue", {"c.md": b"c"}, "team: blue")
    write_skill(blue, "inner-red", {"d.md": b"d"}, "team: red")
    return root


OPEN, RED, INNER_BLUE, BLUE, INNER_RED = ("open", "red", "red/inner-blue", "blue", "blue/inner-red")
SEEN = {
    "boss": {OPEN, RED, INNER_BLUE, BLUE, INNER_RED},
    "red": {OPEN, RED, INNER_RED},
    "blue": {OPEN, BLUE, INNER_BLUE},
    "stranger": {OPEN},
}
DIRECTORIES = {
    "open": {OPEN},
    "red": {RED},
    "red/docs": {RED},
    "red/inner-blue": {RED, INNER_BLUE},
    "blue": {BLUE},
    "blue/inner-red": {BLUE, INNER_RED},
}
FILES = {
    "open/SKILL.md": {OPEN},
    "open/a.md": {OPEN},
    "red/SKILL.md": {RED},
    "red/docs/plan.md": {RED},
    "red/inner-blue/SKILL.md": {RED, INNER_BLUE},
    "red/inner-blue/b.md": {RED, INNER_BLUE},
    "blue/SKILL.md": {BLUE},
    "blue/c.md": {BLUE},
    "blue/inner-red/SKILL.md": {BLUE, INNER_RED},
    "blue/inner-red/d.md": {BLUE, INNER_RED},
}


@pytest.mark.rule("L1", "L2", "G1")
@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("visible", PREDICATES)
@pytest.mark.parametrize("page_size", [1, 250])
async def test_everybody_is_listed_and_given_what_they_may_see_and_nothing_else(
    root: Path,
    publish: Publish,
    make: Make,
    version: str,
    name: str,
    visible: Callable[[ServerRequestContext[Any, Any]], Where | Awaitable[Where]],
    page_size: int,
) -> None:
    server = make(publish(root, visible=visible, page_size=page_size))
    async with asking(server, version, name=name) as asker:
        expected = sorted(f"skill://{path}/SKILL.md" for path in SEEN[name])
        assert sorted(await asker.skills()) == expected
        resources = await asker.listing("resources/list", "resources")
        assert sorted(each["uri"] for each in resources) == sorted([*expected, "skill://index.json"])
        for path in SEEN["boss"]:
            params = {"uri": f"skill://{path}/SKILL.md"}
            if path in SEEN[name]:
                assert (await asker.ask("skills/get", params))["skill"]["uri"] == params["uri"]
            else:
                hidden = await asker.refusal("skills/get", params)
                unknown = await asker.refusal("skills/get", {"uri": "skill://nobody/SKILL.md"})
                assert hidden.code == unknown.code == -32602
                assert hidden.message.replace(params["uri"], "") == unknown.message.replace(
                    "skill://nobody/SKILL.md", ""
                )


@pytest.mark.rule("R1", "D1")
@pytest.mark.parametrize("name", SEEN)
async def test_a_file_or_directory_can_be_read_where_a_skill_that_is_seen_holds_it(
    root: Path, publish: Publish, make: Make, version: str, name: str
) -> None:
    async with asking(make(publish(root, visible=by_name)), version, name=name) as asker:
        for file, holders in FILES.items():
            params = {"uri": f"skill://{file}"}
            if holders & SEEN[name]:
                assert (await asker.ask("resources/read", params))["contents"]
            else:
                refusal = await asker.refusal("resources/read", params)
                assert refusal.code == (-32602 if version == MODERN else -32002)
                assert refusal.message == f"No resource is served at {params['uri']}."
        for directory, holders in DIRECTORIES.items():
            params = {"uri": f"skill://{directory}"}
            if holders & SEEN[name]:
                assert (await asker.ask("resources/directory/read", params))["resources"]
            else:
                assert (await asker.refusal("resources/directory/read", params)).code == -32602


@pytest.mark.rule("U6")
async def test_a_nested_skill_that_is_not_seen_is_a_plain_file_of_the_one_around_it(
    root: Path, publish: Publish
) -> None:
    async with asking(low_level(publish(root, visible=by_name)), MODERN, name="red") as asker:
        children = (await asker.ask("resources/directory/read", {"uri": "skill://red/inner-blue"}))["resources"]
        assert [(each["name"], each.get("description")) for each in children] == [("SKILL.md", None), ("b.md", None)]


@pytest.mark.rule("L2")
async def test_answers_that_depend_on_who_asks_are_private(root: Path, publish: Publish, make: Make) -> None:
    async with asking(make(publish(root, visible=by_name)), MODERN) as asker:
        for method, params in {
            "skills/list": {},
            "skills/get": {"uri": "skill://open/SKILL.md"},
            "resources/read": {"uri": "skill://open/a.md"},
            "resources/list": {},
        }.items():
            assert (await asker.ask(method, params))["cacheScope"] == "private"


@pytest.mark.rule("I10")
@pytest.mark.parametrize("version", OLDER)
async def test_nobody_subscribes_to_what_they_do_not_see(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    skills = publish(root, visible=by_name, watch=True)
    async with asking(make(skills), version, name="red") as asker:
        for file, holders in FILES.items():
            params = {"uri": f"skill://{file}"}
            if holders & SEEN["red"]:
                assert await asker.ask("resources/subscribe", params) == {}
            else:
                assert (await asker.refusal("resources/subscribe", params)).code == -32002


@pytest.mark.rule("I10")
async def test_nobody_hears_of_changes_to_what_they_do_not_see(root: Path, publish: Publish, make: Make) -> None:
    skills = publish(root, visible=by_name, watch=True)
    async with asking(make(skills), MODERN, name="red") as asker:
        await asker.skills()
        assert asker.client is not None
        wanted = ["skill://blue/c.md", "skill://red/docs/plan.md", "skill://nobody/SKILL.md", "config://x"]
        async with asker.client.listen(resource_subscriptions=wanted) as listening:
            assert listening.honored.resource_subscriptions == ["skill://red/docs/plan.md", "config://x"]
            rewrite(root / "blue/c.md", "changed")
            rewrite(root / "red/docs/plan.md", "changed")
            with anyio.fail_after(20):
                assert await anext(listening) == ResourceUpdated(uri="skill://red/docs/plan.md")
            await until(lambda: listening._route._pending == {}, "no more news")
    async with asking(make(publish(root)), MODERN) as asker:
        assert asker.client is not None
        async with asker.client.listen(resource_subscriptions=wanted) as listening:
            assert listening.honored.resource_subscriptions == wanted


@pytest.mark.rule("L2")
async def test_the_predicate_is_asked_once_a_request(root: Path, publish: Publish, make: Make, version: str) -> None:
    asked: list[str] = []

    def visible(ctx: ServerRequestContext[Any, Any]) -> Where:
        asked.append(ctx.method)
        return lambda entry: True

    skills = publish(root, visible=visible)
    skills.skill("made")(lambda: "---\nname: made\ndescription: Made.\n---\n")
    async with asking(make(skills), version) as asker:
        for method, params in [
            ("skills/list", {}),
            ("skills/get", {"uri": "skill://open/SKILL.md"}),
            ("skills/get", {"uri": "skill://made/SKILL.md"}),
            ("skills/get", {"uri": "skill://nobody/SKILL.md"}),
            ("resources/read", {"uri": "skill://made/SKILL.md"}),
            ("resources/directory/read", {"uri": "skill://made"}),
            ("resources/list", {}),
        ]:
            asked.clear()
            if "nobody" in str(params):
                await asker.refusal(method, params)
            else:
                await asker.ask(method, params)
            assert asked == [method]


def _raises(ctx: ServerRequestContext[Any, Any]) -> Where:
    raise LookupError("the password is hunter2")


async def _raises_later(ctx: ServerRequestContext[Any, Any]) -> Where:
    raise LookupError("the password is hunter2")


def _raises_for_an_entry(ctx: ServerRequestContext[Any, Any]) -> Where:
    def where(entry: SkillEntry) -> bool:
        raise LookupError("the password is hunter2")

    return where


def _raises_an_error_of_ours(ctx: ServerRequestContext[Any, Any]) -> Where:
    from skillquay import SkillUri

    SkillUri("the password is hunter2")
    raise AssertionError


def _forgets_to_return(ctx: ServerRequestContext[Any, Any]) -> None:
    """As a function does that has no `return` on one of its ways."""


def _decides_itself(ctx: ServerRequestContext[Any, Any]) -> bool:
    return True


def _gives_back_an_async_function(ctx: ServerRequestContext[Any, Any]) -> object:
    async def where(entry: SkillEntry) -> bool:
        return False

    return where


SLIPS = [
    _raises,
    _raises_later,
    _raises_for_an_entry,
    _raises_an_error_of_ours,
    _forgets_to_return,
    _decides_itself,
    _gives_back_an_async_function,
]


@pytest.mark.rule("R4")
@pytest.mark.parametrize("visible", SLIPS)
async def test_a_predicate_that_fails_shows_nothing_and_nothing_of_its_failure(
    root: Path, publish: Publish, make: Make, version: str, visible: Any
) -> None:
    async with asking(low_level(publish(root, page_size=1)), version) as asker:
        cursor = (await asker.ask("resources/list"))["nextCursor"]
    async with asking(make(publish(root, visible=visible)), version) as asker:
        methods = {
            "skills/list": {},
            "skills/get": {"uri": "skill://open/SKILL.md"},
            "resources/read": {"uri": "skill://open/a.md"},
            "resources/directory/read": {"uri": "skill://open"},
            "resources/list": {},
        }
        assert (await asker.refusal("resources/list", {"cursor": cursor})).code == -32603
        if version != MODERN:
            methods["resources/subscribe"] = {"uri": "skill://open/a.md"}
        for method, params in methods.items():
            refusal = await asker.refusal(method, params)
            assert (refusal.code, refusal.message) == (-32603, "The server could not answer. Its log says why.")
            assert refusal.data is None


@pytest.mark.rule("L2")
async def test_what_is_included_stays_hidden_from_whom_it_was_hidden(root: Path, publish: Publish) -> None:
    """As when `skillquay serve` publishes the object of a Python file."""

    def not_open(ctx: ServerRequestContext[Any, Any]) -> Where:
        return lambda entry: entry.name != "open"

    several: list[list[Callable[[ServerRequestContext[Any, Any]], Where | Awaitable[Where]]]]
    several = [[by_name], [by_name_later, not_open]]
    for included in several:
        skills = publish()
        for number, visible in enumerate(included):
            skills.include(Skills(*([root] if number == 0 else []), visible=visible))
        assert not skills.publisher.is_for_everybody
        async with asking(low_level(skills), MODERN, name="red") as asker:
            page = await asker.ask("skills/list")
            assert page["cacheScope"] == "private"
            seen = {entry["uri"].removeprefix("skill://").removesuffix("/SKILL.md") for entry in page["skills"]}
            assert seen == (SEEN["red"] if len(included) == 1 else SEEN["red"] - {OPEN})


@pytest.mark.rule("E6")
async def test_a_generated_skill_that_becomes_hidden_is_not_given_out_any_more(publish: Publish, version: str) -> None:
    team = "red"

    def made() -> dict[str, str]:
        return {"SKILL.md": f"---\nname: made\ndescription: Made.\nteam: {team}\n---\n{team} only\n", "x.md": team}

    for method, params in {
        "resources/read": {"uri": "skill://made/x.md"},
        "resources/directory/read": {"uri": "skill://made"},
    }.items():
        team = "red"
        skills = publish(visible=by_name)
        skills.skill("made")(made)
        async with asking(low_level(skills), version, name="red") as asker:
            assert await asker.skills() == ["skill://made/SKILL.md"]
            await asker.ask(method, params)
            team = "blue"
            refusal = await asker.refusal(method, params)
            assert refusal.code in {-32602, -32002}
            assert await asker.skills() == []
