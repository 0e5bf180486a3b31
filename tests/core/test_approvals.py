"""An approval holds for exactly the files it was given for, ends with the first other set, and never comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from skillquay.core.approvals import Answer, Approval, Approvals, Grant, fingerprint, requested_tools
from skillquay.core.changes import compare
from skillquay.core.entries import SkillEntry, parse_entry
from skillquay.errors import VerificationError
from tests.core.builders import ACME, EVIL, Published, publish, skill_md

if TYPE_CHECKING:
    from skillquay.core.identity import SkillId


def allow(skill: Published, grant: Grant = Grant.LOAD, *, who: SkillId | None = None) -> Approval:
    return Approval.of(who or skill.id(), skill.entry, grant=grant, answer=Answer.ALLOW)


A = publish({"a.md": b"1"})
B = publish({"a.md": b"2"})
ENTRIES = {
    "A": A,
    "rewritten": B,
    "added": publish({"a.md": b"1", "b.md": b"1"}),
    "removed": publish(),
    "renamed": publish({"b.md": b"1"}),
    "swapped": publish({"a.md": skill_md("refunds"), "SKILL.md": skill_md("refunds", body="1")}),
    "nested": publish({"a.md": b"1", "deep/refunds/SKILL.md": skill_md()}),
    "dynamic": publish(dynamic=True),
}


# A1, A2: a model of the whole life of an answer


@dataclass(frozen=True)
class Recorded:
    skill: SkillId
    grant: Grant
    answer: Answer
    entry: SkillEntry


@dataclass(frozen=True)
class Observed:
    skill: SkillId
    entry: SkillEntry


@dataclass(frozen=True)
class Forgotten:
    skill: SkillId


def pairs_of(entry: SkillEntry) -> set[tuple[str, str]] | None:
    """The (uri, digest) set as it travels; None for a dynamic skill."""
    resources = entry.to_json()["resources"]
    return {(each["uri"], each["digest"]) for each in resources} if isinstance(resources, list) else None


class Lives(RuleBasedStateMachine):
    """Any sequence of record, observe and forget, against the rule read literally from the whole history."""

    def __init__(self) -> None:
        super().__init__()
        self.approvals = Approvals()
        self.history: list[Recorded | Observed | Forgotten] = []

    skills = st.sampled_from([A.id(ACME), A.id(EVIL)])
    entries = st.sampled_from([skill.entry for skill in ENTRIES.values()])
    manifests = st.sampled_from([skill.entry for name, skill in ENTRIES.items() if name != "dynamic"])

    def expected(self, skill: SkillId, grant: Grant) -> Recorded | None:
        standing: Recorded | None = None
        for event in self.history:
            match event:
                case Recorded() if (event.skill, event.grant) == (skill, grant):
                    standing = event
                case Observed() if standing and event.skill == skill:
                    standing = standing if pairs_of(event.entry) == pairs_of(standing.entry) else None
                case Forgotten() if event.skill == skill:
                    standing = None
        return standing

    @rule(skill=skills, grant=st.sampled_from(Grant), answer=st.sampled_from(Answer), entry=manifests)
    def record(self, skill: SkillId, grant: Grant, answer: Answer, entry: SkillEntry) -> None:
        self.approvals = self.approvals.record(Approval.of(skill, entry, grant=grant, answer=answer))
        self.history.append(Recorded(skill, grant, answer, entry))

    @rule(skill=skills, entry=entries)
    def observe(self, skill: SkillId, entry: SkillEntry) -> None:
        before, earlier = self.approvals, dict(self.approvals.standing)
        self.approvals, ended = self.approvals.observe(skill, entry)
        self.history.append(Observed(skill, entry))
        gone = [approval for key, approval in earlier.items() if key not in self.approvals.standing]
        assert sorted(each.approval.grant for each in ended) == sorted(approval.grant for approval in gone)
        for revocation in ended:
            assert revocation.approval in gone
            assert revocation.change == compare(revocation.approval.pairs, entry.pairs)
            assert revocation.change
        assert dict(before.standing) == earlier, "an earlier value was changed"

    @rule(skill=skills)
    def forget(self, skill: SkillId) -> None:
        self.approvals = self.approvals.forget(skill)
        self.history.append(Forgotten(skill))

    @invariant()
    def an_approval_stands_iff_it_was_given_for_exactly_what_was_seen_ever_since(self) -> None:
        for skill in (A.id(ACME), A.id(EVIL)):
            for grant in Grant:
                found, expected = self.approvals.find(skill, grant), self.expected(skill, grant)
                assert (found is None) == (expected is None)
                if found is not None and expected is not None:
                    assert (found.skill, found.grant, found.answer) == (skill, grant, expected.answer)
                    assert set(found.pairs) == pairs_of(expected.entry)


@pytest.mark.rule("A1")
@pytest.mark.rule("A2")
@pytest.mark.rule("N1")
def test_over_any_life_an_approval_stands_only_for_exactly_what_was_seen_ever_since() -> None:
    run_state_machine_as_test(Lives, settings=settings(max_examples=60, stateful_step_count=25))


@pytest.mark.rule("A2")
@pytest.mark.parametrize("other", [name for name in ENTRIES if name != "A"])
def test_a_changed_set_ends_an_approval_for_good_even_when_the_old_set_comes_back(other: str) -> None:
    approvals = Approvals().record(allow(A))
    approvals, ended = approvals.observe(A.id(), ENTRIES[other].entry)
    assert [revocation.approval for revocation in ended] == [allow(A)]
    approvals, again = approvals.observe(A.id(), A.entry)
    assert approvals.find(A.id()) is None
    assert again == ()


@pytest.mark.rule("A2")
def test_an_array_that_turns_dynamic_ends_every_grant() -> None:
    approvals = Approvals()
    for grant in Grant:
        approvals = approvals.record(allow(A, grant))
    approvals, ended = approvals.observe(A.id(), ENTRIES["dynamic"].entry)
    assert not approvals.standing
    assert {revocation.approval.grant for revocation in ended} == set(Grant)
    assert all(revocation.change.became_dynamic for revocation in ended)


@pytest.mark.rule("A1")
def test_a_denial_stands_until_the_content_changes() -> None:
    denial = Approval.of(A.id(), A.entry, grant=Grant.LOAD, answer=Answer.DENY)
    approvals, ended = Approvals().record(denial).observe(A.id(), A.entry)
    assert (approvals.find(A.id()), ended) == (denial, ())
    approvals, ended = approvals.observe(A.id(), B.entry)
    assert approvals.find(A.id()) is None
    assert [revocation.approval for revocation in ended] == [denial]


@pytest.mark.rule("A1")
def test_grants_are_recorded_and_found_each_on_its_own() -> None:
    for grant in Grant:
        approvals = Approvals().record(allow(A, grant))
        assert [each for each in Grant if approvals.find(A.id(), each)] == [grant]


@pytest.mark.rule("N1")
def test_what_one_server_publishes_ends_no_approval_of_another() -> None:
    approvals = Approvals().record(allow(A, who=A.id(ACME))).record(allow(A, who=A.id(EVIL)))
    approvals, ended = approvals.observe(A.id(EVIL), B.entry)
    assert approvals.find(A.id(ACME)) is not None
    assert approvals.find(A.id(EVIL)) is None
    assert len(ended) == 1


@pytest.mark.rule("A2")
def test_a_change_in_a_nested_skill_is_a_change_of_the_skill_around_it() -> None:
    before = publish({"deep/inner/SKILL.md": skill_md("inner"), "deep/inner/a.md": b"1"})
    after = publish({"deep/inner/SKILL.md": skill_md("inner"), "deep/inner/a.md": b"2"})
    approvals, ended = Approvals().record(allow(before)).observe(before.id(), after.entry)
    assert not approvals.standing
    assert ended[0].change.rewritten == ("skill://refunds/deep/inner/a.md",)


@pytest.mark.rule("A4")
def test_an_approval_of_a_skill_is_none_of_a_skill_nested_in_it() -> None:
    inner = publish(at="skill://refunds/deep/inner")
    outer = publish({"deep/inner/SKILL.md": inner.skill_md})
    approvals = Approvals().record(allow(outer))
    assert approvals.find(inner.id()) is None
    assert not allow(outer).covers(inner.entry)


# What an approval binds to


@pytest.mark.rule("A1")
@pytest.mark.parametrize("one", ENTRIES)
@pytest.mark.parametrize("two", ENTRIES)
def test_an_approval_covers_exactly_its_own_set_of_files(one: str, two: str) -> None:
    if one != "dynamic":
        assert allow(ENTRIES[one]).covers(ENTRIES[two].entry) == (one == two)


@pytest.mark.rule("A1")
@pytest.mark.rule("O4")
def test_the_order_of_files_and_annotations_of_any_kind_do_not_matter() -> None:
    raw = ENTRIES["added"].entry.to_json()
    resources = raw["resources"]
    assert isinstance(resources, list)
    annotated = [{**each, "_meta": {"com.example/approved": True}} for each in reversed(resources)]
    other = parse_entry({**raw, "resources": annotated, "_meta": {"com.example/trusted": True}, "approved": True})
    assert allow(ENTRIES["added"]).covers(other)
    assert Approval.of(A.id(), other, grant=Grant.LOAD, answer=Answer.ALLOW) == allow(ENTRIES["added"])


@pytest.mark.rule("A3")
@pytest.mark.parametrize("grant", Grant)
@pytest.mark.parametrize("answer", Answer)
def test_no_answer_about_a_dynamic_skill_can_be_kept(grant: Grant, answer: Answer) -> None:
    with pytest.raises(VerificationError, match="holds once") as failure:
        Approval.of(A.id(), ENTRIES["dynamic"].entry, grant=grant, answer=answer)
    assert failure.value.rule == "A3"


@pytest.mark.rule("A3")
def test_no_approval_covers_a_dynamic_skill() -> None:
    dynamic = ENTRIES["dynamic"].entry
    empty = Approval(skill=A.id(), grant=Grant.LOAD, answer=Answer.ALLOW, pairs=(), shown=dynamic.shown)
    assert not empty.covers(dynamic)
    assert not allow(A).covers(dynamic)


@pytest.mark.rule("A1")
@pytest.mark.rule("B4")
def test_an_answer_is_not_bound_to_the_entry_of_another_skill() -> None:
    other = publish(at="skill://ch\u202earge/refunds")
    with pytest.raises(VerificationError, match=r"ch⟨U\+202E⟩arge.* is not acme: skill://refunds") as failure:
        allow(other, who=A.id())
    assert failure.value.rule == "A1"


@pytest.mark.rule("A1")
@pytest.mark.rule("A2")
@pytest.mark.parametrize("grant", Grant)
def test_an_answer_given_to_a_lying_frontmatter_ends_when_the_entry_tells_the_truth(grant: Grant) -> None:
    raw = A.entry.to_json()
    lie = parse_entry({**raw, "frontmatter": {**A.entry.frontmatter, "description": "Harmless weather."}})
    given = Approvals().record(Approval.of(A.id(), lie, grant=grant, answer=Answer.ALLOW))
    after, (revocation,) = given.observe(A.id(), A.entry)
    assert after.find(A.id(), grant) is None
    assert revocation.change.frontmatter_changed
    assert not revocation.change.rewritten
    assert not Approval.of(A.id(), lie, grant=grant, answer=Answer.ALLOW).covers(A.entry)


@pytest.mark.rule("N1")
def test_the_entry_of_another_skill_ends_no_answer() -> None:
    with pytest.raises(VerificationError, match="is not acme"):
        Approvals().record(allow(A)).observe(A.id(), publish(at="skill://other/refunds").entry)


@pytest.mark.rule("X2")
@pytest.mark.parametrize("line", ["allowed-tools: [Bash]", "allowed-tools: {Bash: yes}", "allowed-tools: 1", "x: Bash"])
def test_tools_not_asked_for_in_the_one_form_of_the_format_are_not_asked_for(line: str) -> None:
    assert requested_tools(publish({"SKILL.md": skill_md("refunds", line)}).entry) == ""


def test_answers_are_taken_back_for_one_skill_alone() -> None:
    approvals = Approvals().record(allow(A)).record(allow(A, Grant.TOOLS)).record(allow(A, who=A.id(EVIL)))
    assert list(approvals.forget(A.id(ACME)).standing) == [(A.id(EVIL), Grant.LOAD)]
    assert len(approvals.standing) == 3


def test_standing_answers_cannot_be_changed_in_place() -> None:
    approvals = Approvals().record(allow(A))
    with pytest.raises(TypeError):
        approvals.standing[A.id(EVIL), Grant.LOAD] = allow(A)  # type: ignore[index]


# Fingerprints

texts = st.text("1:a\x00", max_size=5) | st.sampled_from(["", "sha256:", "skill://a", "skill://a1:", "é", "e\u0301"])
pair_sets = st.lists(st.tuples(texts, texts), max_size=4)


@pytest.mark.rule("A1")
@example([("a", "b")], [("ab", "")])
@example([("a", "b"), ("c", "d")], [("a", "bc"), ("", "d")])
@example([("", "")], [])
@example([("1:a", "")], [("", "1:a")])
@given(pair_sets, pair_sets)
def test_fingerprints_are_equal_exactly_when_the_pairs_are(
    one: list[tuple[str, str]], two: list[tuple[str, str]]
) -> None:
    assert (fingerprint(one) == fingerprint(two)) == (sorted(one) == sorted(two))


@pytest.mark.rule("A1")
@given(pair_sets.flatmap(lambda pairs: st.tuples(st.just(pairs), st.permutations(pairs))))
def test_a_fingerprint_does_not_depend_on_order(pairs: tuple[list[tuple[str, str]], list[tuple[str, str]]]) -> None:
    assert fingerprint(pairs[0]) == fingerprint(pairs[1])


@pytest.mark.rule("A1")
def test_the_fingerprint_of_an_approval_is_that_of_its_files() -> None:
    prints = {allow(skill).fingerprint for name, skill in ENTRIES.items() if name != "dynamic"}
    assert len(prints) == len(ENTRIES) - 1
    assert allow(A).fingerprint == fingerprint(A.manifest.pairs)
