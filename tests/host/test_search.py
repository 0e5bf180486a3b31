"""Find skills by words, whatever the words are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.registry import Local, LocalScope
from skillquay.host.directory import KnownSkill, State
from skillquay.host.search import SkillSearch
from tests.core.builders import publish, skill_md
from tests.host.scripted import Person, Scripted, hosting, local_skill

if TYPE_CHECKING:
    from pathlib import Path


def known(name: str, description: str) -> KnownSkill:
    return KnownSkill(
        name=name,
        description=description,
        origin="user",
        identity=Local(scope=LocalScope.USER, directory=f"/{name}"),
        state=State.LOCAL,
        model_may_load=True,
    )


SEARCH = SkillSearch(
    (
        known("refunds", "Give money back."),
        known("invoices", "Write bills, give refunds a number."),
        known("snake_case", "Names with_underscores, C++ and naïve café words."),
        known("größe", "Für größere Dinge. 日本語の説明"),
    )
)


def found(query: str, limit: int = 10) -> list[str]:
    return [skill.name for skill in SEARCH.find(query, limit)]


def test_a_word_in_the_name_says_more_than_one_in_the_description() -> None:
    assert found("refunds") == ["refunds", "invoices"]
    assert found("refund") == ["refunds", "invoices"], "words are compared by their stems"
    assert found("refunds", 1) == ["refunds"]


def test_the_last_word_may_be_the_beginning_of_one_and_every_word_counts() -> None:
    assert found("mon") == ["refunds"]
    assert set(found("bills money")) == {"refunds", "invoices"}
    assert found("cafe") == ["snake_case"]
    assert found("GRÖSSE größe") == ["größe"]


@pytest.mark.parametrize("query", ["", " ", "???", '"', "*", "-", "\x00", "\ud800", "😀"])
def test_a_query_without_words_finds_nothing(query: str) -> None:
    assert found(query) == []


@pytest.mark.parametrize("query", ["snake_case", "with_underscores", "_", "__a__b", "name:refunds", "AND OR NOT NEAR("])
def test_marks_of_the_query_language_are_words_like_any(query: str) -> None:
    assert isinstance(found(query), list)
    assert found("snake_case")[0] == "snake_case"


@example("a_b c_d_ _e")
@example("refunds" * 1000)
@example("²³ ½ ௧ ৺ \u0345")
@given(st.text() | st.lists(st.sampled_from(['"', "*", "^", ":", "(", ")", "_", "a", "NEAR", "\u0301"])).map("".join))
def test_any_query_is_answered(query: str) -> None:
    assert len(found(query)) <= 4


@pytest.mark.anyio
@pytest.mark.rule("R3")
async def test_the_bodies_of_local_skills_are_searched_and_those_of_servers_are_not_fetched(tmp_path: Path) -> None:
    directory = local_skill(tmp_path / "mine", "here", body="Mention a walrus.\n")
    served = Scripted(publish({"SKILL.md": skill_md(body="Mention a walrus.\n")}))
    async with hosting(tmp_path, {"acme": served}, Person(), user_skills=(str(tmp_path / "mine"),)) as host:
        assert [skill.name for skill in await host.search_skills("walrus")] == ["here"]
        assert len(await host.search_skills("for", limit=1)) == 1
        assert served.reads == []
        (directory / "SKILL.md").unlink()
        await host.survey()
        assert await host.search_skills("walrus") == ()


@pytest.mark.anyio
async def test_searching_while_the_host_looks_around_finds_what_was_there_at_one_moment(tmp_path: Path) -> None:
    served = Scripted(*(publish(at=f"skill://skill-{number}") for number in range(50)))
    async with hosting(tmp_path, {"acme": served}, Person()) as host:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(host.search_skills, "skill")
                tasks.start_soon(host.survey)
        assert len(await host.search_skills("skill", limit=50)) == 50
