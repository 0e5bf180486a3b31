"""The extension's methods, asked within bounds; whatever comes back is taken or told, never raised as it is."""

from __future__ import annotations

import base64
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from skillquay.core.verification import UnverifiedSkill, VerifiedSkill
from skillquay.errors import (
    BudgetError,
    EntryError,
    FrontmatterMismatchError,
    SizeMismatchError,
    SkillquayError,
    UnavailableError,
    UriError,
)
from skillquay.host.budgets import Budgets, answer_cap
from skillquay.host.client import SkillsClient, is_missing
from skillquay.host.listing import Listing
from tests.core.builders import publish, skill_md
from tests.host.scripted import EXTENSION, Scripted, failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

pytestmark = pytest.mark.anyio

SKILL = publish({"a.md": b"alpha"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


class Answers:
    """Gives the next of these results; remembers what it was asked, and how long the answer might have been."""

    def __init__(self, *results: dict[str, Any] | Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self.results = list(results)
        self.asked: list[tuple[str, dict[str, Any], int]] = []
        self.capabilities: dict[str, Any] = {EXTENSION: {"directoryRead": True}}

    async def declared(self) -> dict[str, Any]:
        return self.capabilities

    async def request(self, method: str, params: Mapping[str, Any], *, cap: int) -> dict[str, Any]:
        self.asked.append((method, dict(params), cap))
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        return result(params) if callable(result) else result


def page(*names: str, **more: Any) -> dict[str, Any]:
    return {"skills": [publish(at=f"skill://{name}").entry.to_json() for name in names], **more}


def listed(listing: Listing) -> list[str]:
    return [entry.name for entry in listing.entries]


# L4: bounds


@pytest.mark.rule("L4")
async def test_all_pages_are_listed_and_cursors_are_handed_back_as_they_came() -> None:
    odd = "\u202e next? ÿ"
    answers = Answers(page("a", "b", nextCursor="2"), page(nextCursor=odd), page("c", nextCursor=""), page("d"))
    assert listed(await SkillsClient(answers).list_skills()) == ["a", "b", "c", "d"]
    assert [params for _, params, _ in answers.asked] == [{}, {"cursor": "2"}, {"cursor": odd}, {"cursor": ""}]


@pytest.mark.rule("L4")
async def test_a_listing_that_does_not_end_is_cut_at_a_bound_and_the_user_is_told() -> None:
    for budgets, answer, told, count in [
        (Budgets(pages=3), page("a", nextCursor="again"), "more than 3 pages", 1),
        (Budgets(entries=5), page("a", "b", "c", nextCursor="again"), "more than 5 skills", 3),
        (Budgets(listing_bytes=700), page("a", nextCursor="again"), "more than 700 bytes", 1),
        (Budgets(page_bytes=160), page("a", nextCursor="x" * 11), "not a usable string", 1),
        (Budgets(), page("a", nextCursor=7), "not a usable string", 1),
        (Budgets(), page("a", nextCursor=["b"]), "not a usable string", 1),
    ]:
        answers = Answers(answer)
        listing = await SkillsClient(answers, budgets=budgets).list_skills()
        assert len(answers.asked) <= 4
        assert any(told in remark for remark in listing.remarks)
        assert len(listed(listing)) == count


@pytest.mark.rule("L4")
async def test_a_bound_on_entries_is_exact() -> None:
    client = SkillsClient(Answers(page("a", "b", nextCursor="2"), page("c")), budgets=Budgets(entries=3))
    listing = await client.list_skills()
    assert listed(listing) == ["a", "b", "c"]
    assert listing.remarks == ()


@pytest.mark.parametrize("answer", [{}, {"skills": None}, {"skills": {}}, {"skills": "all"}], ids=str)
async def test_an_answer_that_lists_nothing_is_told(answer: dict[str, Any]) -> None:
    with pytest.raises(UnavailableError, match='no array "skills"'):
        await SkillsClient(Answers(answer)).list_skills()


@pytest.mark.rule("E5")
async def test_what_came_before_a_failure_can_be_settled() -> None:
    listing = Listing()
    with pytest.raises(UnavailableError):
        await SkillsClient(Answers(page("a", nextCursor="2"), {})).list_skills(into=listing)
    assert listed(listing) == []
    listing.settle()
    assert listed(listing) == ["a"]


@pytest.mark.rule("E5")
@pytest.mark.rule("L6")
async def test_bad_entries_among_good_ones_leave_each_good_one_with_its_own_time() -> None:
    first = page("a", "b", ttlMs=1000, nextCursor="2")
    first["skills"][1:1] = [None, {"uri": "skill://bad/SKILL.md"}, first["skills"][0]]
    listing = await SkillsClient(Answers(first, page("c", ttlMs=60_000))).list_skills()
    assert listed(listing) == ["a", "b", "c"]
    assert [refused.index for refused in listing.refused] == [1, 2, 3]
    assert [str(uri) for uri in listing.refused_uris] == ["skill://bad/SKILL.md"]
    short, same, long = (each.expires for each in listing.received)
    assert short == same
    assert long - short > 50


@pytest.mark.rule("L6")
async def test_no_answer_counts_as_current_for_more_than_a_day() -> None:
    received = await SkillsClient(Answers({"skill": SKILL.entry.to_json(), "ttlMs": 10**18})).get_skill(SKILL.entry.uri)
    assert received.expires <= time.monotonic() + 24 * 60 * 60


@pytest.mark.rule("E5")
async def test_an_entry_nested_without_end_loses_no_other() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    entry = {**SKILL.entry.to_json(), "frontmatter": {"name": "refunds", "description": "d", "x": deep}}
    noted = {**publish(at="skill://noted").entry.to_json(), "_meta": {"x": deep}}
    listing = await SkillsClient(Answers({"skills": [entry, noted, *page("a")["skills"]]})).list_skills()
    assert listed(listing) == ["noted", "a"]
    assert "nested more than" in listing.refused[0].reason
    assert listing.entries[0].extra == {}


@given(st.dictionaries(st.sampled_from(["skills", "nextCursor", "ttlMs", "cacheScope", "x"]), json_values))
@pytest.mark.rule("E5")
async def test_no_page_of_any_kind_is_a_crash(answer: dict[str, Any]) -> None:
    for wanted in (answer, {"skills": [answer], **answer}):
        with suppress(SkillquayError):
            assert (await SkillsClient(Answers(wanted), budgets=Budgets(pages=2)).list_skills()).entries == ()
        with suppress(SkillquayError):
            await SkillsClient(Answers({"skill": wanted, **wanted})).get_skill("skill://refunds/SKILL.md")
        with suppress(SkillquayError):
            await SkillsClient(Answers({"resources": wanted, **wanted}, wanted)).read_directory("skill://refunds")


# C4, L3, G1: asking for one


@pytest.mark.rule("C4")
@pytest.mark.parametrize("declared", [None, [], True, "x"], ids=str)
async def test_nothing_is_asked_of_a_server_that_does_not_declare_it(declared: object) -> None:
    answers = Answers({})
    answers.capabilities = {} if declared is None else {EXTENSION: declared}
    client = SkillsClient(answers)
    for attempt in (
        client.list_skills,
        lambda: client.get_skill("skill://refunds/SKILL.md"),
        lambda: client.read_skill_uri("skill://refunds/SKILL.md"),
        lambda: client.read_directory("skill://refunds"),
    ):
        with pytest.raises(UnavailableError) as refused:
            await attempt()
        assert refused.value.rule == "C4"
    assert answers.asked == []
    assert not client.declares_skills


@pytest.mark.rule("C4")
@pytest.mark.parametrize("setting", [None, False, "true", 1, [True]], ids=str)
async def test_directories_are_asked_for_only_where_that_is_declared_as_true(setting: object) -> None:
    answers = Answers({"resources": []})
    answers.capabilities = {EXTENSION: {"directoryRead": setting}}
    with pytest.raises(UnavailableError):
        await SkillsClient(answers).read_directory("skill://refunds")
    assert not SkillsClient(answers).reads_directories
    answers.capabilities = {EXTENSION: {"directoryRead": True}}
    assert await SkillsClient(answers).read_directory("skill://refunds") == ()


@pytest.mark.parametrize(
    "skill",
    [None, [], "x", {}, SKILL.entry.to_json() | {"uri": "skill://other/refunds/SKILL.md"}],
    ids=lambda skill: str(skill)[:20],
)
async def test_an_answer_that_is_no_entry_of_this_skill_is_refused(skill: object) -> None:
    with pytest.raises(EntryError):
        await SkillsClient(Answers({"skill": skill})).get_skill("skill://refunds/SKILL.md")


async def test_an_answer_about_another_skill_is_refused() -> None:
    answers = Answers({"skill": publish(at="skill://other").entry.to_json()})
    with pytest.raises(EntryError, match=r"answers about skill://other/SKILL\.md"):
        await SkillsClient(answers).get_skill("skill://refunds/SKILL.md")
    with pytest.raises(UnavailableError, match='no "skill"'):
        await SkillsClient(Answers({})).get_skill("skill://refunds/SKILL.md")
    with pytest.raises(UriError):
        await SkillsClient(Answers({})).get_skill("file:///refunds/SKILL.md")


@pytest.mark.rule("P8")
@pytest.mark.rule("L3")
async def test_the_client_of_the_sdk_lists_reads_and_verifies_with_it() -> None:
    generated = publish({"x.md": b"x"}, at="skill://generated", dynamic=True)
    server = Scripted(SKILL, generated, directories=True)
    async with Client(server.server) as client:
        skills = SkillsClient(client)
        assert skills.declares_skills
        assert listed(await skills.list_skills()) == ["refunds", "generated"]
        loaded = await skills.read_skill_uri("skill://refunds/SKILL.md")
        assert isinstance(loaded, VerifiedSkill)
        assert loaded.body == "Refund politely.\n"
        assert isinstance(await skills.read_skill_uri("skill://generated/SKILL.md"), UnverifiedSkill)
        children = await skills.read_directory("skill://refunds")
        assert [(child.uri.name, child.is_directory) for child in children] == [("SKILL.md", False), ("a.md", False)]
        server.files["skill://refunds/SKILL.md"] = b"lies"
        with pytest.raises(SizeMismatchError):
            await skills.read_skill_uri("skill://refunds/SKILL.md")
        server.files["skill://generated/SKILL.md"] = skill_md("generated", "more: words")
        with pytest.raises(FrontmatterMismatchError):
            await skills.read_skill_uri("skill://generated/SKILL.md")
        with pytest.raises(UnavailableError, match=r"-32602.*No skill") as missing:
            await skills.get_skill("skill://nothing/SKILL.md")
        assert is_missing(missing.value)
        server.on["resources/read"] = lambda _: (_ for _ in ()).throw(failure(-32603, "x"))
        with pytest.raises(UnavailableError) as broken:
            await skills.read_file("skill://refunds/a.md")
        assert not is_missing(broken.value)
        server.on["resources/read"] = lambda _: {"contents": 7}
        with pytest.raises(UnavailableError, match="not hold exactly one file"):
            await skills.read_file("skill://refunds/a.md")
        server.on["resources/read"] = lambda _: {"resultType": 7}
        with pytest.raises(UnavailableError, match="not valid MCP"):
            await skills.read_file("skill://refunds/a.md")


# L4, D1: directories


@pytest.mark.rule("L4")
@pytest.mark.rule("D4")
async def test_a_directory_is_listed_over_all_its_pages_and_what_is_no_child_is_left_out() -> None:
    kind = {"mimeType": "inode/directory"}
    answers = Answers(
        {"resources": [{"uri": "skill://a/b"}, {"uri": 7}, 7, None, {"uri": "no uri"}], "nextCursor": "2"},
        {"resources": [{"uri": "skill://a/0", **kind}], "nextCursor": None},
    )
    children = await SkillsClient(answers).read_directory("skill://a")
    assert [(str(child.uri), child.is_directory) for child in children] == [
        ("skill://a/0", True),
        ("skill://a/b", False),
    ]
    assert [params for _, params, _ in answers.asked] == [{"uri": "skill://a"}, {"uri": "skill://a", "cursor": "2"}]


@pytest.mark.rule("L4")
async def test_a_directory_that_does_not_end_is_an_error() -> None:
    endless: list[tuple[Budgets, dict[str, Any]]] = [
        (Budgets(pages=3), {"resources": [], "nextCursor": "again"}),
        (Budgets(entries=3), {"resources": [{"uri": "skill://a/b"}] * 4}),
        (Budgets(entries=3), {"resources": ["no child"] * 2, "nextCursor": "again"}),
        (Budgets(listing_bytes=2000), {"resources": [{"name": "x" * 900}], "nextCursor": "again"}),
    ]
    for budgets, answer in endless:
        answers = Answers(answer)
        with pytest.raises(BudgetError, match="does not end within its bounds"):
            await SkillsClient(answers, budgets=budgets).read_directory("skill://a")
        assert len(answers.asked) <= 3
    with pytest.raises(UnavailableError, match='no array "resources"'):
        await SkillsClient(Answers({"resources": None})).read_directory("skill://a")


@pytest.mark.rule("L4")
async def test_all_directories_of_a_session_together_are_limited() -> None:
    answers = Answers({"resources": [{"uri": "skill://a/b", "name": "x" * 600}]})
    client = SkillsClient(answers, budgets=Budgets(server_bytes=1000))
    assert len(await client.read_directory("skill://a")) == 1
    with pytest.raises(BudgetError, match="more than 1,000 bytes"):
        await client.read_directory("skill://a")


# B2: what takes long is done in a thread, and what is too much is not done


async def turns_during(asking: Awaitable[object]) -> int:
    """How many turns the event loop takes meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        with suppress(SkillquayError):
            await asking
        tasks.cancel_scope.cancel()
    return turns


@pytest.mark.rule("B2")
async def test_other_servers_are_served_while_a_long_entry_is_parsed() -> None:
    raw = SKILL.entry.to_json()
    raw["frontmatter"] = {"name": "refunds", "description": "d", "x": [[] for _ in range(200_000)]}
    assert await turns_during(SkillsClient(Answers({"skill": raw})).get_skill(raw["uri"])) > 15  # type: ignore[arg-type]


@pytest.mark.rule("B2")
@pytest.mark.parametrize("dynamic", [False, True])
async def test_other_servers_are_served_while_a_long_frontmatter_is_compared(dynamic: bool) -> None:
    data = skill_md("refunds", "x: [" + "0," * 20_000 + "]")
    skill = publish({"SKILL.md": data}, dynamic=dynamic)
    answers = Answers({"skill": skill.entry.to_json()}, {"contents": [{"text": data.decode()}]})
    assert await turns_during(SkillsClient(answers).read_skill_uri(skill.entry.uri)) > 15


@pytest.mark.rule("B2")
@pytest.mark.rule("L4")
async def test_millions_of_values_in_a_listing_count_for_more_than_their_digits() -> None:
    budgets = Budgets(listing_bytes=1_000_000)
    values: list[Any] = [[0] * 200_000, [[]] * 100_000, dict.fromkeys(map(str, range(100_000)), 0), [10**4000] * 1000]
    for value in values:
        endless = {"skills": [{"uri": "skill://a/SKILL.md", "x": value}]}
        listing = await SkillsClient(Answers(endless), budgets=budgets).list_skills()
        assert any("more than 1,000,000 bytes" in remark for remark in listing.remarks)
        assert listing.pages == []


@pytest.mark.rule("B2")
@pytest.mark.rule("L4")
async def test_entries_beyond_the_bound_are_not_even_weighed() -> None:
    answers = Answers(page("a") | {"skills": [*page("a")["skills"], *([0] * 1_000_000)]})
    listing = await SkillsClient(answers, budgets=Budgets(entries=10, listing_bytes=5000)).list_skills()
    assert listed(listing) == ["a"]
    assert len(listing.refused) == 9


# B1: bytes


@pytest.mark.rule("B1")
async def test_the_cap_on_an_answer_admits_the_largest_file_in_its_longest_form() -> None:
    largest = 16 * 1024 * 1024
    answers = Answers({"contents": [{"text": "x"}]})
    await SkillsClient(answers).read_file("skill://a/b", size=largest)
    await SkillsClient(answers).read_file("skill://a/b")
    await SkillsClient(answers).read_file("skill://a/b", size=0)
    assert [cap >= size * 6 for (_, _, cap), size in zip(answers.asked, (largest, largest, 0), strict=True)]
    assert answers.asked[2][2] < 100_000
    assert answer_cap() == answer_cap(largest)


@pytest.mark.rule("B1")
async def test_all_that_one_server_sends_in_a_session_is_limited() -> None:
    client = SkillsClient(
        Answers({"contents": [{"blob": base64.b64encode(b"x" * 600).decode()}]}), budgets=Budgets(server_bytes=1000)
    )
    assert len(await client.read_file("skill://a/b")) == 600
    with pytest.raises(BudgetError, match="more than 1,000 bytes"):
        await client.read_file("skill://a/b")
