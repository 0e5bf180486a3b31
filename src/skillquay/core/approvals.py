"""Approvals bound to content: what was answered, for exactly which bytes, and when that answer ends (A1-A4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING

from skillquay.core.changes import ManifestChange, compare
from skillquay.core.hidden import shorten
from skillquay.errors import VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import SkillId

__all__ = ["Answer", "Approval", "Approvals", "Grant", "Revocation", "fingerprint", "requested_tools"]


class Grant(StrEnum):
    """What an answer is about. Each is asked for and bound on its own; none implies another (A1, O5)."""

    LOAD = "load"
    EXECUTE = "execute"
    TOOLS = "tools"


class Answer(StrEnum):
    """What the person said. Both last until the skill's content changes."""

    ALLOW = "allow"
    DENY = "deny"


def fingerprint(pairs: Iterable[tuple[str, str]]) -> str:
    """One value for a whole set of (uri, digest): equal exactly when every file is the same (A1)."""
    total = sha256()
    for text in (text for pair in sorted(pairs) for text in pair):
        encoded = text.encode("utf-8", "surrogatepass")
        total.update(b"%d:%b" % (len(encoded), encoded))
    return total.hexdigest()


def requested_tools(entry: SkillEntry) -> str:
    """The `allowed-tools` a skill asks for; empty where it asks for none, or not in the one form the format has."""
    tools = entry.frontmatter.get("allowed-tools")
    return tools if isinstance(tools, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An answer to one question about one skill, bound to the files it had at that moment and to what it showed.

    `shown` stands for the frontmatter the person saw. The files alone do not say it: an entry can lie about its
    frontmatter until someone loads the skill, and tell the truth once the lie was approved.
    """

    skill: SkillId
    grant: Grant
    answer: Answer
    pairs: tuple[tuple[str, str], ...]
    shown: str

    @classmethod
    def of(cls, skill: SkillId, entry: SkillEntry, *, grant: Grant, answer: Answer) -> Approval:
        """Bind an answer to this entry. One that does not cover the whole skill gives nothing to bind to (A3, I9)."""
        if entry.pairs is None:
            message = f"{skill} cannot be verified whole: an answer about it holds once and cannot be kept."
            raise VerificationError(message, uri=entry.uri, rule="A3")
        if entry.identity != skill.uri:
            raise VerificationError(f"{shorten(entry.uri)} is not {skill}.", uri=entry.uri, rule="A1")
        return cls(skill=skill, grant=grant, answer=answer, pairs=entry.pairs, shown=entry.shown)

    @property
    def fingerprint(self) -> str:
        """The set of files in short, for people and logs."""
        return fingerprint(self.pairs)

    def change_to(self, entry: SkillEntry) -> ManifestChange:
        """What moved between what the answer was about and this entry."""
        return replace(compare(self.pairs, entry.pairs), frontmatter_changed=self.shown != entry.shown)

    def covers(self, entry: SkillEntry) -> bool:
        """True when the files are those the answer was about, every one, and the frontmatter is the one shown."""
        return entry.pairs is not None and entry.pairs == self.pairs and entry.shown == self.shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """An answer that ended because the skill changed, and what changed."""

    approval: Approval
    change: ManifestChange


@dataclass(frozen=True, slots=True)
class Approvals:
    """All standing answers. Every change makes a new value, so that a store can save it before anyone acts on it."""

    standing: Mapping[tuple[SkillId, Grant], Approval] = field(default_factory=lambda: MappingProxyType({}))

    def find(self, skill: SkillId, grant: Grant = Grant.LOAD) -> Approval | None:
        """The standing answer about this skill, if there is one."""
        return self.standing.get((skill, grant))

    def record(self, approval: Approval) -> Approvals:
        """With this answer in place of an earlier one to the same question."""
        return self._with({**self.standing, (approval.skill, approval.grant): approval})

    def forget(self, skill: SkillId) -> Approvals:
        """Without any answer about this skill: the user took them back."""
        return self._with({key: value for key, value in self.standing.items() if key[0] != skill})

    def observe(self, skill: SkillId, entry: SkillEntry) -> tuple[Approvals, tuple[Revocation, ...]]:
        """An entry was seen. Every answer about other content ends for good: A, B, A revives nothing (A2)."""
        if entry.identity.key != skill.key:
            raise VerificationError(f"{shorten(entry.uri)} is not {skill}.", uri=entry.uri, rule="N1")
        ended = tuple(
            Revocation(approval=approval, change=approval.change_to(entry))
            for approval in self._about(skill)
            if not approval.covers(entry)
        )
        if not ended:
            return self, ()
        gone = {(revocation.approval.skill, revocation.approval.grant) for revocation in ended}
        return self._with({key: value for key, value in self.standing.items() if key not in gone}), ended

    def _about(self, skill: SkillId) -> Iterator[Approval]:
        return (approval for grant in Grant if (approval := self.standing.get((skill, grant))))

    @staticmethod
    def _with(standing: dict[tuple[SkillId, Grant], Approval]) -> Approvals:
        return Approvals(MappingProxyType(standing))
