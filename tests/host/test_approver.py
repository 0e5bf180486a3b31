"""Who answers for a person, and that nothing but a yes is a yes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from skillquay.core.changes import ManifestChange
from skillquay.core.questions import About, Question, Reply
from skillquay.errors import RefusedError
from skillquay.host.approver import Approver, CallbackApprover, NobodyToAsk, PolicyApprover
from tests.core.builders import ACME, publish
from tests.host.scripted import Person, Scripted, hosting

if TYPE_CHECKING:
    from pathlib import Path

    from skillquay.core.identity import ServerLabel
    from skillquay.host.approver import Inspect

pytestmark = pytest.mark.anyio

SKILL = publish({"a.md": b"alpha"})


async def no_content(path: str) -> str:
    raise AssertionError(path)


def question(
    at: str = "skill://billing/refunds",
    *,
    about: About = About.LOAD,
    server: ServerLabel = ACME,
    change: ManifestChange | None = None,
    dynamic: bool = False,
) -> Question:
    skill = publish(at=at, dynamic=dynamic)
    return Question(
        about=about, text="?", skill=skill.id(server), entry=skill.entry, change=change, can_be_kept=not dynamic
    )


async def test_where_nobody_is_there_nothing_is_approved() -> None:
    assert await NobodyToAsk().ask(question(), no_content) is Reply.LATER


async def test_a_program_answers_by_a_function_of_either_kind() -> None:
    async def later(_: Question) -> Reply:
        return Reply.ONCE

    assert await CallbackApprover(lambda _: Reply.KEEP).ask(question(), no_content) is Reply.KEEP
    assert await CallbackApprover(later).ask(question(), no_content) is Reply.ONCE


@pytest.mark.rule("O5")
@pytest.mark.parametrize("said", [None, True, 1, "keep", "once", "allow", ["keep"]], ids=str)
async def test_whatever_is_not_a_reply_is_never_a_yes(tmp_path: Path, said: Any) -> None:
    assert await CallbackApprover(lambda _: said).ask(question(), no_content) is Reply.LATER

    class Careless(Approver):
        async def ask(self, question: Question, inspect: Inspect) -> Reply:
            reply: Reply = said
            return reply

    server, other = Scripted(SKILL), Scripted()
    async with hosting(tmp_path, {"acme": server, "other": other}, Careless()) as host:
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
        assert await host.people.ask_about_server("acme") == {"refunds": Reply.LATER}
        assert server.reads == []
    async with hosting(tmp_path, {"acme": server, "other": other}, Person(Reply.ONCE)) as host:
        await host.read_skill("refunds")
        host.consent._approver = Careless()
        assert not (await host.may_execute("bash", {})).allowed
        with pytest.raises(RefusedError):
            await host.read_resource("other", "docs://x")
        assert other.reads == []


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("acme:*", True),
        ("acme:billing/refunds", True),
        ("acme:billing/*", True),
        ("acme:skill://billing/*", True),
        ("*", True),
        ("acme:refunds", False),
        ("acme", False),
        ("ACME:*", False),
        ("other:*", False),
        ("acme:billing", False),
        ("", False),
    ],
)
async def test_patterns_name_a_server_and_a_path_or_uri(pattern: str, matches: bool) -> None:
    allowing, denying = PolicyApprover(allow=[pattern]), PolicyApprover(allow=["*"], deny=[pattern])
    assert await allowing.ask(question(), no_content) is (Reply.KEEP if matches else Reply.LATER)
    assert await denying.ask(question(), no_content) is (Reply.DENY if matches else Reply.KEEP)


@pytest.mark.rule("E6")
async def test_generated_skills_are_declined_by_rules_unless_they_say_otherwise() -> None:
    generated = question(dynamic=True)
    assert await PolicyApprover(allow=["*"]).ask(generated, no_content) is Reply.DENY
    assert await PolicyApprover(allow=["*"], dynamic=True).ask(generated, no_content) is Reply.ONCE
    assert await PolicyApprover(trust=["acme"], dynamic=True).ask(generated, no_content) is Reply.LATER


@pytest.mark.rule("A2")
async def test_a_trusted_server_is_asked_about_again_when_a_skill_changed() -> None:
    person = Person(otherwise=Reply.DENY)
    policy = PolicyApprover(trust=["acme"], otherwise=person)
    assert await policy.ask(question(), no_content) is Reply.KEEP
    assert await policy.ask(question(change=ManifestChange(added=("x",))), no_content) is Reply.DENY
    assert await policy.ask(question(change=ManifestChange()), no_content) is Reply.DENY
    assert len(person.asked) == 2


@pytest.mark.rule("O5")
@pytest.mark.rule("X1")
@pytest.mark.parametrize("about", [About.EXECUTE, About.TOOLS, About.READ])
async def test_rules_answer_for_loading_only(about: About) -> None:
    policy = PolicyApprover(allow=["*"], trust=["acme"], dynamic=True)
    assert await policy.ask(question(about=about), no_content) is Reply.LATER
    person = Person(otherwise=Reply.ONCE)
    assert await PolicyApprover(deny=["*"], otherwise=person).ask(question(about=about), no_content) is Reply.ONCE


async def test_a_whole_list_is_answered_one_by_one_unless_there_is_a_better_way() -> None:
    person = Person(Reply.KEEP, Reply.DENY, otherwise=Reply.LATER)
    asked = [question(f"skill://{name}") for name in ("one", "two", "three")]
    assert await person.ask_all(asked, lambda _: no_content) == [Reply.KEEP, Reply.DENY, Reply.LATER]
    assert person.asked == asked


@pytest.mark.rule("A2")
async def test_rules_in_a_host_keep_answers_and_a_change_is_no_first_sight(tmp_path: Path) -> None:
    server = Scripted(SKILL)
    async with hosting(tmp_path, {"acme": server}, PolicyApprover(trust=["acme"])) as host:
        await host.read_skill("refunds")
        host.release("refunds")
        server.publish(publish({"a.md": b"changed"}))
        await host.refresh(anew=True)
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
