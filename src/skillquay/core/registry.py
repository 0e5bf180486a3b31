"""Names are labels: every skill stays reachable, nothing shadows anything silently, collisions are seen (N2)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from skillquay.core.hidden import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillquay.core.identity import SkillId

__all__ = ["Ambiguous", "Collision", "Local", "LocalScope", "Registered", "Registry", "Unknown"]


class LocalScope(StrEnum):
    """Where a skill on disk belongs."""

    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Local:
    """The identity of a skill on disk: its scope and its directory."""

    scope: LocalScope
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A skill the host knows of, wherever it comes from."""

    name: str
    identity: Local | SkillId

    @property
    def origin(self) -> str:
        """Where it comes from, in a word a person knows."""
        return self.identity.scope if isinstance(self.identity, Local) else str(self.identity.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Several skills of one name, each with the qualified name that reaches it; `winner` has the plain name."""

    name: str
    members: tuple[str, ...]
    winner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """A name that means several skills; nobody chooses for the caller."""

    name: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A name that means none."""

    name: str


Found: TypeAlias = "Registered | Ambiguous | Unknown"


class Registry:
    """All skills of all origins under names that tell them apart, in an order that does not depend on arrival."""

    def __init__(self, skills: Iterable[Registered]) -> None:
        self.skills = tuple(sorted(skills, key=_order))
        self._meanings: dict[str, list[Registered]] = {}
        for skill in self.skills:
            for form in dict.fromkeys((skill.name, *_qualified_forms(skill))):
                self._meanings.setdefault(form, []).append(skill)
        groups: dict[str, list[Registered]] = {}
        for skill in self.skills:
            groups.setdefault(_folded(skill.name), []).append(skill)
        self._names: dict[int, str] = {}
        self.collisions = tuple(self._settle(groups))

    def name_of(self, skill: Registered) -> str:
        """The name this skill is shown and loaded by: plain where that is clear, qualified where names collide."""
        return self._names[id(next(each for each in self.skills if each == skill))]

    def named(self) -> Iterator[tuple[str, Registered]]:
        """Every skill with the name it is shown by."""
        return ((self._names[id(skill)], skill) for skill in self.skills)

    def find(self, name: str) -> Found:
        """The skill of this plain or qualified name. A name with several meanings is given back as ambiguous."""
        meanings = self._meanings.get(name, [])
        if len(meanings) == 1 and not self._is_twin(meanings[0], name):
            return meanings[0]
        winners = [skill for skill in meanings if self._names[id(skill)] == name]
        if len(winners) == 1:
            return winners[0]
        if not meanings:
            return Unknown(name=visible(name))
        twins = [skill for skill in self.skills if _folded(skill.name) == _folded(name)] or meanings
        return Ambiguous(name=visible(name), candidates=tuple(self._names[id(skill)] for skill in twins))

    def _is_twin(self, skill: Registered, name: str) -> bool:
        """True for a plain name that another skill has too, but for case or Unicode form: that is not clear either."""
        return name == skill.name and self._names[id(skill)] != name

    def _settle(self, groups: dict[str, list[Registered]]) -> Iterator[Collision]:
        for group in groups.values():
            for skill in group:
                self._names[id(skill)] = skill.name if len(group) == 1 else self._clearest(skill)
            if len(group) > 1:
                winner = _local_winner(group)
                if winner is not None:
                    self._names[id(winner)] = winner.name
                yield Collision(
                    name=group[0].name,
                    members=tuple(self._names[id(skill)] for skill in group),
                    winner=None if winner is None else winner.name,
                )

    def _clearest(self, skill: Registered) -> str:
        forms = list(_qualified_forms(skill))
        return next((form for form in forms if len(self._meanings[form]) == 1), forms[-1])


def _local_winner(group: list[Registered]) -> Registered | None:
    """The project's skill, when only the user's own skills have the same name (P1). A served skill lets nobody win."""
    project = [skill for skill in group if isinstance(skill.identity, Local) and skill.identity.scope == "project"]
    others_are_local = all(isinstance(skill.identity, Local) for skill in group)
    return project[0] if others_are_local and len(project) == 1 else None


def _qualified_forms(skill: Registered) -> Iterator[str]:
    """From the shortest qualified name to one that nothing else can have."""
    identity = skill.identity
    if isinstance(identity, Local):
        yield f"{'.' if identity.scope == LocalScope.PROJECT else '~'}/{skill.name}"
        yield f"{'.' if identity.scope == LocalScope.PROJECT else '~'}/{identity.directory}/{skill.name}"
        return
    label = identity.server.label
    path = "/".join(identity.uri.segments[:-1])
    scope = sha256(identity.server.scope.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    yield f"{label}:{skill.name}"
    yield f"{label}:{path}"
    yield f"{label}:{identity.uri}"
    yield f"{label}@{scope}:{identity.uri}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _order(skill: Registered) -> tuple[str, ...]:
    identity = skill.identity
    if isinstance(identity, Local):
        return (skill.name, "0", identity.scope, identity.directory)
    return (skill.name, "1", identity.server.label, str(identity.uri), identity.server.scope)
