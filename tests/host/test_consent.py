"""Permission: from what is kept, or else from the approver, one question at a time, kept before it is acted on."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.lowlevel import checkpoint

from skillquay.core.approvals import Answer, Grant
from skillquay.core.identity import ServerLabel
from skillquay.core.questions import About, Question, Reply
from skillquay.core.registry import Local, LocalScope
from skillquay.errors import RefusedError
from skillquay.host.approver import Approver
from skillquay.host.consent import Consent, key_of
from skillquay.host.store import Store
from tests.core.builders import ACME, EVIL, publish, skill_md
from tests.host.scripted import Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skillquay.host.approver import Inspect

pytestmark = pytest.mark.anyio

SKILL = publish({"SKILL.md": skill_md("refunds", "allowed-tools: Bash"), "a.md": b"alpha"})
CHANGED = publish({"a.md": b"omega"})
GENERATED = publish(dynamic=True)


async def no_content(path: str) -> str:
    raise AssertionError(path)


@asynccontextmanager
async def consenting(approver: Approver) -> AsyncIterator[Consent]:
    store = Store.open(":memory:")
    try:
        yield Consent(store, approver, dynamic=True)
    finally:
        store.close()


@pytest.mark.rule("N1")
def test_what_is_disabled_is_named_so_that_nothing_else_has_its_name() -> None:
    other = ServerLabel(label="acme", scope="elsewhere")
    names = {
        key_of(SKILL.id()),
        key_of(SKILL.id(EVIL)),
        key_of(SKILL.id(other)),
        key_of(ACME),
        key_of(other),
        key_of(Local(scope=LocalScope.USER, directory="/refunds")),
    }
    assert len(names) == 6
    assert key_of(publish(at="skill://r%65funds").id()) == key_of(SKILL.id())


@pytest.mark.rule("X2")
async def test_a_grant_of_tools_is_asked_for_kept_and_bound() -> None:
    person = Person(Reply.KEEP, otherwise=Reply.DENY)
    async with consenting(person) as consent:
        await consent.may_grant_tools(SKILL.id(), SKILL.entry, no_content)
        await consent.may_grant_tools(SKILL.id(), SKILL.entry, no_content)
        assert [question.about for question in person.asked] == [About.TOOLS]
        with pytest.raises(RefusedError):
            await consent.may_grant_tools(SKILL.id(EVIL), SKILL.entry, no_content)
        assert await consent.approval(SKILL.id(), Grant.LOAD) is None


@pytest.mark.rule("X2")
@pytest.mark.rule("A3")
async def test_a_grant_of_tools_to_a_dynamic_skill_is_never_kept() -> None:
    person = Person(otherwise=Reply.KEEP)
    wanting = publish({"SKILL.md": skill_md("refunds", "allowed-tools: Bash")}, dynamic=True)
    async with consenting(person) as consent:
        for _ in range(2):
            await consent.may_grant_tools(wanting.id(), wanting.entry, no_content)
        assert len(person.asked) == 2
        assert await consent.approval(wanting.id(), Grant.TOOLS) is None


async def test_a_person_is_asked_one_thing_at_a_time_and_one_answer_serves_all_who_wait() -> None:
    class Slow(Approver):
        def __init__(self) -> None:
            self.open = self.most = self.count = 0

        async def ask(self, question: Question, inspect: Inspect) -> Reply:
            self.open += 1
            self.count += 1
            self.most = max(self.most, self.open)
            await checkpoint()
            self.open -= 1
            return Reply.KEEP

    slow = Slow()
    other = publish(at="skill://other")
    async with consenting(slow) as consent, anyio.create_task_group() as tasks:
        for skill in (SKILL, SKILL, other, SKILL, other):
            tasks.start_soon(consent.may_load, skill.id(), skill.entry, no_content)
    assert (slow.most, slow.count) == (1, 2)


async def test_an_approver_that_fails_blocks_nobody_after_it() -> None:
    class Broken(Person):
        async def ask(self, question: Question, inspect: Inspect) -> Reply:
            if not self.asked:
                self.asked.append(question)
                raise LookupError("broken")
            return await super().ask(question, inspect)

    async with consenting(Broken()) as consent:
        with pytest.raises(LookupError):
            await consent.may_load(SKILL.id(), SKILL.entry, no_content)
        await consent.may_load(SKILL.id(), SKILL.entry, no_content)


@pytest.mark.rule("V3")
@pytest.mark.rule("A2")
async def test_after_a_failed_check_only_an_answer_about_the_fresh_entry_counts() -> None:
    person = Person(otherwise=Reply.LATER)
    async with consenting(person) as consent:
        skill = SKILL.id()
        await consent.answer(About.LOAD, skill, SKILL.entry, Answer.ALLOW)
        with pytest.raises(RefusedError, match="has not changed"):
            await consent.may_recover(skill, SKILL.entry, SKILL.entry, no_content)
        assert person.asked == []
        with pytest.raises(RefusedError):
            await consent.may_recover(skill, SKILL.entry, CHANGED.entry, no_content)
        assert person.asked[0].change is not None
        assert person.asked[0].change.rewritten == ("skill://refunds/SKILL.md", "skill://refunds/a.md")
        await consent.answer(About.LOAD, skill, CHANGED.entry, Answer.ALLOW)
        await consent.may_recover(skill, SKILL.entry, CHANGED.entry, no_content)
        await consent.answer(About.LOAD, skill, CHANGED.entry, Answer.DENY)
        with pytest.raises(RefusedError, match="denied"):
            await consent.may_recover(skill, SKILL.entry, CHANGED.entry, no_content)
        assert len(person.asked) == 1


@pytest.mark.rule("O2")
async def test_a_read_on_the_skills_own_server_asks_nobody() -> None:
    person = Person()
    async with consenting(person) as consent:
        await consent.may_read([(SKILL.id(), SKILL.entry)], ACME, "docs://x", no_content)
        await consent.may_read([], EVIL, "docs://x", no_content)
        assert person.asked == []
        await consent.may_read([(SKILL.id(), SKILL.entry), (SKILL.id(EVIL), SKILL.entry)], ACME, "docs://x", no_content)
        assert person.asked[0].skill == SKILL.id(EVIL)


@pytest.mark.rule("A3")
async def test_a_no_to_a_dynamic_skill_is_about_this_very_question_only() -> None:
    person = Person(Reply.DENY, otherwise=Reply.ONCE)
    async with consenting(person) as consent:
        skill = GENERATED.id()
        with pytest.raises(RefusedError):
            await consent.may_execute(skill, GENERATED.entry, "bash", no_content)
        await consent.may_load(skill, GENERATED.entry, no_content)
        with pytest.raises(RefusedError, match="in this session"):
            await consent.may_execute(skill, GENERATED.entry, "bash", no_content)
        assert len(person.asked) == 2


async def test_what_was_allowed_once_and_what_was_refused_is_in_the_audit() -> None:
    async with consenting(Person(Reply.ONCE, Reply.LATER)) as consent:
        await consent.may_load(SKILL.id(), SKILL.entry, no_content)
        with pytest.raises(RefusedError):
            await consent.may_load(SKILL.id(), SKILL.entry, no_content)
        await consent.note("started", None)
        assert [event.kind for event in consent.store.audit()] == ["started", "refused", "allowed-once"]
