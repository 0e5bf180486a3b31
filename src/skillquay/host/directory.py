"""Every skill the host knows of, by name: where it comes from, what stands against it, what the model may be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from skillquay.core.approvals import Answer, Grant
from skillquay.core.context import Available
from skillquay.core.decisions import model_may_load
from skillquay.core.drafts import Assurance
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import SkillId
from skillquay.core.registry import Ambiguous, Registered, Registry, Unknown
from skillquay.errors import RefusedError, UnknownSkillError
from skillquay.host.configuration import Problem
from skillquay.host.consent import key_of, keys_of
from skillquay.sources.collector import collector_paused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import ServerLabel
    from skillquay.core.registry import Local
    from skillquay.host.local import LocalEntry
    from skillquay.host.store import Kept, Store

__all__ = ["Directory", "KnownSkill", "Standing", "State"]


_MOST_NAMED = 20


class State(StrEnum):
    """How things stand with a skill, in the words a person is shown."""

    LOCAL = "local"
    APPROVED = "approved"
    NEW = "not approved yet"
    CHANGED = "changed since it was approved"
    DENIED = "denied"
    DISABLED = "disabled"
    DYNAMIC = "generated, asked each time"
    UNPROVEN = "asked each time"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSkill:
    """One skill: the name that reaches it, what it says it is for, and how things stand with it."""

    name: str
    description: str
    origin: str
    identity: Local | SkillId
    state: State
    model_may_load: bool
    local: LocalEntry | None = None
    entry: SkillEntry | None = None


@dataclass(slots=True, kw_only=True)
class Standing:
    """What is kept about skills, read at one moment. Where it could not be read, no served skill is offered."""

    is_known: bool = False
    kept: Mapping[tuple[SkillId, Grant], Kept] = field(default_factory=dict)
    disabled: frozenset[str] = frozenset()

    @classmethod
    def read(cls, store: Store) -> Standing:
        """What is kept now."""
        kept = {(each.approval.skill, each.approval.grant): each for each in store.approvals()}
        return cls(is_known=True, kept=kept, disabled=store.disabled())

    def state(self, skill: SkillId, entry: SkillEntry) -> State:
        """How things stand with a served skill."""
        if self.disabled and not self.disabled.isdisjoint((*keys_of(skill, entry), key_of(skill.server))):
            return State.DISABLED
        if entry.pairs is None:
            return State.DYNAMIC if entry.draft is None else State.UNPROVEN
        kept = self.kept.get((skill, Grant.LOAD))
        if kept is None:
            return State.NEW
        if kept.ended is not None or not kept.approval.covers(entry):
            return State.CHANGED if kept.approval.change_to(entry) else State.NEW
        return State.APPROVED if kept.approval.answer is Answer.ALLOW else State.DENIED


class Directory:
    """All skills of one moment under names that tell them apart (N2)."""

    def __init__(self, local: Iterable[LocalEntry], served: Mapping[SkillId, SkillEntry], standing: Standing) -> None:
        locals_of = {entry.identity: entry for entry in local}
        self._standing = standing
        with collector_paused():
            self.registry = Registry(
                [
                    *(Registered(name=entry.name, identity=entry.identity) for entry in locals_of.values()),
                    *(Registered(name=entry.name, identity=skill) for skill, entry in served.items()),
                ]
            )
            self.skills: tuple[KnownSkill, ...] = tuple(
                _known_local(name, registered, locals_of[registered.identity], standing)
                if not isinstance(registered.identity, SkillId)
                else _known_served(name, registered, registered.identity, served[registered.identity], standing)
                for name, registered in self.registry.named()
            )
            self._by_identity = {skill.identity: skill for skill in self.skills}

    def find(self, name: str) -> KnownSkill:
        """The skill of this name. A name that means several is nobody's to choose from but the caller's."""
        match self.registry.find(name.removeprefix("/")):
            case Registered() as found:
                return self._by_identity[found.identity]
            case Ambiguous() as several:
                candidates = ", ".join(several.candidates[:20])
                raise UnknownSkillError(f'"{shorten(several.name)}" means several skills. Say which: {candidates}.')
            case Unknown() as unknown:
                raise UnknownSkillError(f'There is no skill "{shorten(unknown.name)}".')

    def get(self, identity: Local | SkillId) -> KnownSkill | None:
        """The skill of this identity, if it is known."""
        return self._by_identity.get(identity)

    def check_enabled(self, server: ServerLabel) -> None:
        """Raise `RefusedError` for a server that a person disabled: it is not asked for anything (A5)."""
        if key_of(server) in self._standing.disabled:
            raise RefusedError(f'The server "{server}" is disabled. Enable it with "skillquay enable".', rule="A5")

    def offered(self) -> tuple[KnownSkill, ...]:
        """What the model may be told of: not what is disabled, denied, or for people to load only (P2)."""
        return tuple(
            skill
            for skill in self.skills
            if skill.model_may_load
            and skill.state not in {State.DISABLED, State.DENIED}
            and (skill.local is not None or self._standing.is_known)
        )

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The names that several skills have (N2)."""
        return tuple(
            Problem(
                subject=f'name "{collision.name}"',
                message=f"Several skills have it: {_named(collision.members)}. "
                + (f'The plain name means "{collision.winner}".' if collision.winner else "Use these longer names."),
                rule="N2",
            )
            for collision in self.registry.collisions
        )

    @cached_property
    def available(self) -> tuple[Available, ...]:
        """What the model is told."""
        return tuple(
            Available(
                name=skill.name,
                description=" ".join(skill.description.split()),
                origin=_proven_origin(skill),
                is_served=skill.entry is not None,
            )
            for skill in self.offered()
        )


def _named(members: tuple[str, ...]) -> str:
    """The first of many names, and how many more there are."""
    more = f", and {len(members) - _MOST_NAMED:,} more" if len(members) > _MOST_NAMED else ""
    return ", ".join(shorten(name, 200) for name in members[:_MOST_NAMED]) + more


def _proven_origin(skill: KnownSkill) -> str:
    """Where a skill comes from, and what cannot be verified of it where a draft is spoken (I9)."""
    entry = skill.entry
    if entry is None or entry.draft is None or entry.assurance is Assurance.WHOLE:
        return skill.origin
    return f"{skill.origin}; {entry.assurance}"


def _known_local(name: str, registered: Registered, entry: LocalEntry, standing: Standing) -> KnownSkill:
    return KnownSkill(
        name=name,
        description=entry.description,
        origin=registered.origin,
        identity=entry.identity,
        state=State.DISABLED if key_of(entry.identity) in standing.disabled else State.LOCAL,
        model_may_load=entry.model_may_load,
        local=entry,
    )


def _known_served(
    name: str, registered: Registered, skill: SkillId, entry: SkillEntry, standing: Standing
) -> KnownSkill:
    return KnownSkill(
        name=name,
        description=entry.description,
        origin=visible(registered.origin),
        identity=skill,
        state=standing.state(skill, entry),
        model_may_load=model_may_load(entry.frontmatter),
        entry=entry,
    )
