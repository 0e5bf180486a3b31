"""Names are labels: every skill stays reachable, nothing shadows anything silently, collisions are seen (N2)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from skillquay.core.hidden import shorten, visible
from skillquay.core.uris import MAX_URI_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillquay.core.identity import SkillId

__all__ = ["Ambiguous", "Collision", "Found", "Local", "LocalScope", "Registered", "Registry", "Unknown"]


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
        """Where it comes from, in words a person knows. No label makes a served skill look like a local one (O1)."""
        return self.identity.scope if isinstance(self.identity, Local) else f"MCP server {self.identity.server}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Several skills of one name, each with the name that reaches it; `winner` is the one with the plain name."""

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


_LONGEST_NAME = 2 * MAX_URI_LENGTH
_LONGEST_FOLDED = 128  # normalising text takes time that grows with its square
_LONGEST_SHOWN = _LONGEST_FOLDED + 80  # with a mark before it, and a hash behind it

Found: TypeAlias = "Registered | Ambiguous | Unknown"


class Registry:
    """All skills of all origins under names that tell them apart, in an order that does not depend on arrival.

    Every skill has several names, from the plain one to one that nothing else can have. A name works when it means one
    skill only, and a skill is shown by the first of its names that works. Names that differ in case, Unicode form or
    hidden characters alone are one name. What takes long to compare, being long and not ASCII, is no name of a skill.
    """

    def __init__(self, skills: Iterable[Registered]) -> None:
        self.skills = tuple(sorted(dict.fromkeys(skills), key=_order))
        self._meanings: dict[str, list[Registered]] = {}
        forms_of = [tuple(_forms(skill)) for skill in self.skills]
        for skill, forms in zip(self.skills, forms_of, strict=True):
            for folded in dict.fromkeys(folded for _, folded in forms):
                self._meanings.setdefault(folded, []).append(skill)
        self._clear = {folded: _meant(meanings) for folded, meanings in self._meanings.items()}
        self._names = {
            skill: next(visible(form) for form, folded in forms if self._clear[folded] is skill)
            for skill, forms in zip(self.skills, forms_of, strict=True)
        }
        self.collisions = tuple(self._collisions())

    def name_of(self, skill: Registered) -> str:
        """The name this skill is shown and loaded by: plain where that is clear, qualified where names collide."""
        return self._names[skill]

    def named(self) -> Iterator[tuple[str, Registered]]:
        """Every skill with the name it is shown by."""
        return ((self._names[skill], skill) for skill in self.skills)

    def find(self, name: str) -> Found:
        """The skill of this plain or qualified name. A name with several meanings is given back as ambiguous."""
        folded = _folded(name, _LONGEST_SHOWN) if len(name) <= _LONGEST_NAME else None
        if folded is None:
            return Unknown(name=shorten(name))
        if skill := self._clear.get(folded):
            return skill
        if meanings := self._meanings.get(folded):
            return Ambiguous(name=visible(name), candidates=tuple(self._names[skill] for skill in meanings))
        return Unknown(name=visible(name))

    def _collisions(self) -> Iterator[Collision]:
        groups: dict[str, list[Registered]] = {}
        for skill in self.skills:
            groups.setdefault(_folded(skill.name) or skill.name, []).append(skill)
        for group in groups.values():
            if len(group) > 1:
                members = tuple(self._names[skill] for skill in group)
                plain = (shown for shown, skill in zip(members, group, strict=True) if shown == visible(skill.name))
                yield Collision(name=visible(group[0].name), members=members, winner=next(plain, None))


def _meant(meanings: list[Registered]) -> Registered | None:
    """The only skill, or the project's, when only the user's own skills have the same name (P1).

    A served skill lets nobody win.
    """
    if len(meanings) == 1:
        return meanings[0]
    locals_only = all(isinstance(skill.identity, Local) for skill in meanings)
    project = [skill for skill in meanings if isinstance(skill.identity, Local) and skill.identity.scope == "project"]
    return project[0] if locals_only and len(project) == 1 else None


def _forms(skill: Registered) -> Iterator[tuple[str, str]]:
    """The names of a skill, each as it is shown and as it is compared, the shortest first.

    The last ends in `#` and a hash of all that identifies the skill. No other holds a `#`, so nothing else has it. A
    plain name holds none of the marks of a qualified one, and no name of a served skill begins like that of a local.
    """
    plain = _folded(skill.name)
    if skill.name and plain is not None and _MARKS.isdisjoint(plain):
        yield skill.name, plain
    is_local = isinstance(skill.identity, Local)
    qualified = list(_qualified_forms(skill))
    forms = [(form, folded) for form in qualified if (folded := _folded(form)) is not None]
    yield from (each for each in forms if "#" not in each[1] and each[1].startswith(_LOCAL) == is_local)
    longest, folded = forms[-1] if forms else _beginning(qualified[0])
    if folded.startswith(_LOCAL) != is_local:
        longest, folded = f"mcp:{longest}", f"mcp:{folded}"
    digest = sha256(repr(_order(skill)).encode()).hexdigest()
    yield f"{longest}#{digest[:8]}", f"{folded}#{digest[:8]}"
    yield f"{longest}#{digest}", f"{folded}#{digest}"


_MARKS = frozenset(":/#")
_LOCAL = ("./", "~/")


def _qualified_forms(skill: Registered) -> Iterator[str]:
    identity = skill.identity
    if isinstance(identity, Local):
        mark = "." if identity.scope == LocalScope.PROJECT else "~"
        yield f"{mark}/{skill.name}"
        yield f"{mark}/{identity.directory}/{skill.name}"
    else:
        label = identity.server.label
        yield f"{label}:{skill.name}"
        path = identity.uri.segments if not identity.uri.is_skill else identity.uri.segments[:-1]
        yield f"{label}:{'/'.join(path)}"
        yield f"{label}:{identity.uri}"


def _folded(name: str, longest: int = _LONGEST_FOLDED) -> str | None:
    """The name as it is compared; None for one that is too long to be a name."""
    if name.isascii() and name.isprintable():
        return name.lower()  # all that the rest comes to
    if len(name) > longest or len(shown := visible(name)) > longest:
        return None
    folded = unicodedata.normalize("NFKC", shown).casefold()
    return unicodedata.normalize("NFKC", folded)


def _beginning(form: str) -> tuple[str, str]:
    """So much of a form as can be compared."""
    shown = visible(form[:_LONGEST_FOLDED])[:_LONGEST_FOLDED]
    folded = _folded(shown)
    assert folded is not None, "it was cut"
    return shown, folded


def _order(skill: Registered) -> tuple[str, ...]:
    identity = skill.identity
    if isinstance(identity, Local):
        return (skill.name, "0", identity.scope, identity.directory)
    return (skill.name, "1", identity.server.label, str(identity.uri), identity.server.scope)
