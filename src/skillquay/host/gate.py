"""The gate before code runs: which served skills are in use, and whether a person approved it for each (X1, X4)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillquay.core.approvals import Grant
from skillquay.core.decisions import writes_instructions
from skillquay.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.core.acting import ActingSkill
    from skillquay.core.identity import SkillId
    from skillquay.host.context import ModelContext
    from skillquay.host.host import SkillHost

__all__ = ["Execution", "may_execute"]

_BETWEEN_WORDS = re.compile(r"[\s'\"`=<>|;&(){}\[\],]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """May a code-execution tool run now? `skills` are the served skills in use, each with whether it was approved."""

    allowed: bool
    reason: str
    skills: tuple[tuple[SkillId, bool], ...]
    writes_instructions: bool


async def may_execute(host: SkillHost, context: ModelContext, tool: str, arguments: Mapping[str, object]) -> Execution:
    """Each served skill in use needs its own approval, also one that is loaded while the others are asked about."""
    writes = any(writes_instructions(text) for text in _texts(arguments))
    shown = _written(tool, arguments)
    found: dict[SkillId, bool] = {}
    reason = "No served skill is in use."
    while new := [window for skill, window in _windows(host).items() if skill not in found]:
        for window in new:
            inspect = context.inspector(window.skill, window.entry)
            if False in found.values():  # one no is enough: of the others only what was answered before is told
                found[window.skill] = await host.consent.has_allowed(window.skill, window.entry, Grant.EXECUTE)
                continue
            try:
                if shown is None:
                    raise RefusedError("The arguments of the call cannot be shown to a person.", rule="X1")
                await host.consent.may_execute(window.skill, window.entry, shown, inspect)
            except RefusedError as refusal:
                found[window.skill] = False
                reason = refusal.message
            else:
                found[window.skill] = True
    allowed = all(found.values())
    if found and allowed:
        reason = "Running code was approved for each served skill in use."
    return Execution(allowed=allowed, reason=reason, skills=tuple(found.items()), writes_instructions=writes)


def _written(tool: str, arguments: Mapping[str, object]) -> str | None:
    """The whole call as JSON, for a person to see; None where it is not data that can be written down."""
    try:
        return json.dumps({"tool": tool, "arguments": dict(arguments)}, default=str)
    except (TypeError, ValueError, RecursionError):
        return None


def _windows(host: SkillHost) -> Mapping[SkillId, ActingSkill]:
    return host.loading.windows.open_windows if host.has_state else {}


def _texts(value: object) -> Iterator[str]:
    """Every text in the arguments of a tool, names included, and every word of it that could be meant as a path."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
            yield from _BETWEEN_WORDS.split(value)
        elif isinstance(value, Mapping):
            pending += (*value, *value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            pending += value
