"""Every skill the host knows of: how things stand with it, and what the model may be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.errors import UnknownSkillError
from skillquay.host.consent import key_of
from skillquay.host.directory import Directory, Standing, State
from skillquay.host.rows import Kept
from tests.core.builders import ACME, EVIL, publish, skill_md

if TYPE_CHECKING:
    from tests.core.builders import Published

SKILL = publish({"a.md": b"alpha"})
CHANGED = publish({"a.md": b"omega"})


def kept(
    skill: Published, answer: Answer = Answer.ALLOW, *, ended: float | None = None, grant: Grant = Grant.LOAD
) -> Kept:
    approval = Approval.of(skill.id(), skill.entry, grant=grant, answer=answer)
    return Kept(approval=approval, at=1.0, ended=ended, entry=skill.entry)


def standing(*answers: Kept, disabled: frozenset[str] = frozenset()) -> Standing:
    return Standing(
        is_known=True, kept={(each.approval.skill, each.approval.grant): each for each in answers}, disabled=disabled
    )


@pytest.mark.rule("A5")
@pytest.mark.rule("A1")
@pytest.mark.parametrize(
    ("stands", "entry", "state"),
    [
        (standing(), SKILL, State.NEW),
        (standing(kept(SKILL)), SKILL, State.APPROVED),
        (standing(kept(SKILL, Answer.DENY)), SKILL, State.DENIED),
        (standing(kept(SKILL)), CHANGED, State.CHANGED),
        (standing(kept(SKILL, ended=2.0)), SKILL, State.NEW),
        (standing(kept(SKILL, ended=2.0)), CHANGED, State.CHANGED),
        (standing(kept(SKILL, grant=Grant.EXECUTE)), SKILL, State.NEW),
        (standing(kept(SKILL)), publish(dynamic=True), State.DYNAMIC),
        (standing(kept(SKILL), disabled=frozenset({key_of(SKILL.id())})), SKILL, State.DISABLED),
        (standing(kept(SKILL), disabled=frozenset({key_of(ACME)})), SKILL, State.DISABLED),
        (standing(kept(SKILL), disabled=frozenset({key_of(EVIL), key_of(SKILL.id(EVIL))})), SKILL, State.APPROVED),
    ],
)
def test_a_skill_stands_as_it_was_answered_about_this_very_content(
    stands: Standing, entry: Published, state: State
) -> None:
    directory = Directory((), {entry.id(): entry.entry}, stands)
    assert [skill.state for skill in directory.skills] == [state]


@pytest.mark.rule("P2")
def test_only_what_may_be_loaded_is_offered_and_nothing_served_while_answers_cannot_be_read() -> None:
    shy = publish({"SKILL.md": skill_md("shy", "disable-model-invocation: true")}, at="skill://shy")
    served = {skill.id(): skill.entry for skill in (SKILL, shy)}
    assert [skill.name for skill in Directory((), served, standing()).offered()] == ["refunds"]
    assert [skill.name for skill in Directory((), served, standing(kept(SKILL, Answer.DENY))).offered()] == []
    unknown = Directory((), served, Standing())
    assert unknown.offered() == ()
    assert unknown.available == ()
    assert len(unknown.skills) == 2


@pytest.mark.rule("N2")
def test_a_name_finds_one_skill_or_says_which_there_are() -> None:
    one, two = publish(at="skill://a/refunds"), publish(at="skill://b/refunds")
    directory = Directory((), {each.id(): each.entry for each in (one, two)}, standing())
    assert directory.find("/acme:a/refunds").entry == one.entry
    with pytest.raises(UnknownSkillError, match="Say which: acme:a/refunds, acme:b/refunds"):
        directory.find("refunds")
    with pytest.raises(UnknownSkillError, match='There is no skill "x⟨U\\+202E⟩"'):
        directory.find("x\u202e")
    assert directory.get(one.id()) is directory.find("acme:a/refunds")
    assert directory.get(one.id(EVIL)) is None


@pytest.mark.rule("P2")
def test_descriptions_are_told_on_one_line() -> None:
    entry = publish(frontmatter={"name": "refunds", "description": "One\n\n  two\tthree"})
    (available,) = Directory((), {entry.id(): entry.entry}, standing()).available
    assert available.description == "One two three"
    assert available.origin == "MCP server acme"
    assert available.is_served
