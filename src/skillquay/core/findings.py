"""What is wrong with a skill, where, by which rule, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Finding", "Level"]


class Level(StrEnum):
    """How much a finding matters: an error keeps a skill from being published, a warning upsets some readers."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One remark about one place. `kind` groups findings of one sort; `file` is relative to the skill's directory."""

    rule: str
    level: Level
    kind: str
    message: str
    file: str = "SKILL.md"
    line: int | None = None
    fix: str | None = None

    def at(self, level: Level) -> Finding:
        """The same remark at another level."""
        return replace(self, level=level)
