"""What people do of their own accord: look, approve, deny, compare, take back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillquay.core.approvals import Answer, Grant
from skillquay.core.drafts import Assurance
from skillquay.core.questions import About, Reply
from skillquay.errors import RefusedError, UnknownSkillError, UriError, VerificationError
from skillquay.host.directory import State
from tests.core.builders import publish, skill_md
from tests.host.scripted import Person, Scripted, hosting, local_skill

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SKILL = publish({"a.md": b"alpha"})
CHANGED = publish({"a.md": b"omega", "b.md": b"new"})


@pytest.mark.rule("A5")
@pytest.mark.rule("V4")
async def test_everything_a_person_may_want_to_know_is_shown_and_nothing_is_called_safe(tmp_path: Path) -> None:
    wanting = publish({"SKILL.md": skill_md("refunds", "allowed-tools: Bash", "hooks: [run]", "license: MIT")})
    async with hosting(tmp_path, {"acme": Scripted(wanting)}) as host:
        shown = "\n".join((await host.people.question("refunds")).lines())
        for part in (
            "MCP server acme (in this process)",
            "skill://refunds/SKILL.md",
            "says it is    refunds: What refunds is for.",
            "the tools Bash (not granted by this answer)",
            'without effect  hooks: ["run"]',
            f"served as     skills extension (SEP-2640): {Assurance.WHOLE}",
            "files         1, 1",
        ):
            assert part in shown
        assert "license" not in shown
        told = shown.lower()
        assert not any(word in told for word in ("safe", "verified", "trusted", "sha256"))


@pytest.mark.rule("A5")
@pytest.mark.rule("A2")
async def test_what_a_person_answers_is_kept_bound_to_what_they_were_shown(tmp_path: Path) -> None:
    server, nobody = Scripted(SKILL), Person(otherwise=Reply.LATER)
    async with hosting(tmp_path, {"acme": server}, nobody) as host:
        question = await host.people.question("refunds")
        server.publish(CHANGED)
        await host.refresh(anew=True)
        await host.people.keep(question, Answer.ALLOW)
        assert host.find("refunds").state is State.CHANGED, "they saw the older content"
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
        await host.people.answer("refunds", About.LOAD, Answer.ALLOW)
        assert host.find("refunds").state is State.APPROVED
        assert "politely" in await host.read_skill("refunds")


@pytest.mark.rule("A3")
async def test_no_answer_about_a_dynamic_skill_is_kept(tmp_path: Path) -> None:
    async with hosting(tmp_path, {"acme": Scripted(publish(dynamic=True))}) as host:
        for about in (About.LOAD, About.EXECUTE, About.TOOLS):
            with pytest.raises(VerificationError):
                await host.people.answer("refunds", about, Answer.ALLOW)
        assert await host.people.approvals() == []


@pytest.mark.rule("A2")
async def test_a_person_can_compare_what_they_answered_with_what_is_there_now(tmp_path: Path) -> None:
    server = Scripted(SKILL)
    async with hosting(tmp_path, {"acme": server}) as host:
        assert await host.people.difference("refunds") is None
        await host.people.answer("refunds", About.LOAD, Answer.ALLOW)
        same = await host.people.difference("refunds")
        assert same is not None
        assert not same.change
        server.publish(CHANGED)
        await host.refresh(anew=True)
        difference = await host.people.difference("refunds")
        assert difference is not None
        assert difference.change.rewritten == ("skill://refunds/a.md",)
        assert difference.change.added == ("skill://refunds/b.md",)
        assert difference.now == CHANGED.entry
        assert difference.then.approval.covers(SKILL.entry)


@pytest.mark.rule("A5")
async def test_answers_can_be_taken_back_and_all_of_it_is_in_the_audit(tmp_path: Path) -> None:
    server, person = Scripted(SKILL), Person(Reply.KEEP, otherwise=Reply.LATER)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        await host.read_skill("refunds")
        await host.people.answer("refunds", About.TOOLS, Answer.DENY)
        assert {(kept.approval.grant, kept.ended) for kept in await host.people.approvals()} == {
            (Grant.LOAD, None),
            (Grant.TOOLS, None),
        }
        assert await host.people.revoke("refunds") == 2
        assert await host.people.revoke("refunds") == 0
        host.release("refunds")
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
        kinds = [event.kind for event in await host.people.audit(limit=20, name="refunds")]
        assert kinds == ["refused", "revoke", "revoke", "deny", "loaded", "allow"]
        assert len(await host.people.audit(limit=2)) == 2
        with pytest.raises(UnknownSkillError):
            await host.people.revoke("nothing")


@pytest.mark.rule("A5")
async def test_a_whole_server_is_answered_for_at_once_and_only_where_an_answer_is_missing(tmp_path: Path) -> None:
    names = ("one", "two", "three", "four")
    skills = [publish(at=f"skill://{name}", dynamic=name == "four") for name in names]
    person = Person(Reply.KEEP, Reply.DENY, otherwise=Reply.LATER)
    server = Scripted(*skills)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        await host.people.answer("one", About.LOAD, Answer.ALLOW)
        replies = await host.people.ask_about_server("acme")
        assert replies == {"two": Reply.KEEP, "three": Reply.DENY}
        states = {skill.name: skill.state for skill in host.skills}
        assert states == {
            "one": State.APPROVED,
            "two": State.APPROVED,
            "three": State.DENIED,
            "four": State.DYNAMIC,
        }
        assert await host.people.ask_about_server("acme") == {}
        assert server.reads == []


@pytest.mark.rule("A5")
async def test_content_shown_while_a_whole_server_is_answered_for_is_that_of_the_skill_in_question(
    tmp_path: Path,
) -> None:
    server = Scripted(*(publish({"x.md": name.encode()}, at=f"skill://{name}") for name in ("one", "two")))
    person = Person(looks_at=("x.md",))
    async with hosting(tmp_path, {"acme": server}, person) as host:
        await host.people.ask_about_server("acme")
    assert person.seen == ["one", "two"]


@pytest.mark.rule("A5")
async def test_local_skills_can_be_looked_at_and_need_no_approval(tmp_path: Path) -> None:
    local_skill(tmp_path / "mine", "here", notes_md="notes")
    async with hosting(tmp_path, user_skills=(str(tmp_path / "mine"),)) as host:
        assert await host.people.files("here") == [("SKILL.md", None), ("notes.md", None)]
        assert await host.people.content("here", "notes.md") == b"notes"
        assert b"Do it here." in await host.people.content("here")
        for attempt in (
            lambda: host.people.question("here"),
            lambda: host.people.answer("here", About.LOAD, Answer.ALLOW),
            lambda: host.people.difference("here"),
        ):
            with pytest.raises(RefusedError, match="your own disk"):
                await attempt()
        with pytest.raises(UriError):
            await host.people.content("here", "../elsewhere")


async def test_the_files_of_a_served_skill_are_known_without_fetching(tmp_path: Path) -> None:
    server = Scripted(SKILL)
    async with hosting(tmp_path, {"acme": server}) as host:
        assert await host.people.files("refunds") == [("SKILL.md", len(SKILL.skill_md)), ("a.md", 5)]
        assert server.reads == []


async def test_answers_about_a_skill_whose_server_is_gone_can_be_found_and_taken_back(tmp_path: Path) -> None:
    async with hosting(tmp_path, {"acme": Scripted(SKILL), "two": Scripted(SKILL)}) as host:
        await host.people.answer("acme:refunds", About.LOAD, Answer.ALLOW)
        await host.people.answer("two:refunds", About.LOAD, Answer.ALLOW)
    async with hosting(tmp_path) as host:
        with pytest.raises(UnknownSkillError, match="several skills"):
            await host.people.revoke("refunds")
        assert await host.people.revoke("acme:refunds") == 1
        assert {event.kind for event in await host.people.audit(limit=10, name="two:refunds")} == {"allow"}
        with pytest.raises(UnknownSkillError, match="Nothing is kept"):
            await host.people.audit(limit=10, name="unheard")
