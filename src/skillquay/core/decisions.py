"""May this go on? Every question of permission about served skills, answered from values alone (A, O2, O5, X1, X2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.core.entries import DYNAMIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillquay.core.changes import ManifestChange
    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import ServerLabel, SkillId

__all__ = [
    "Ask",
    "Decision",
    "Policy",
    "Proceed",
    "Refuse",
    "decide",
    "decide_execution",
    "decide_read",
    "granted_tools",
    "inert_fields",
    "writes_instructions",
]

# Frontmatter fields of the format that say what a skill is. Anything else could ask a host to do something, and a
# served skill's is never acted on; of these, allowed-tools needs a grant of its own (X1, X2).
_DESCRIPTIVE = frozenset({"name", "description", "license", "compatibility", "metadata"})
# What agents read as instructions at their next start, by file name and by directory (X4).
_INSTRUCTION_FILES = frozenset(
    {
        ".clinerules",
        ".cursorrules",
        ".mcp.json",
        ".windsurfrules",
        "agent.md",
        "agents.md",
        "claude.local.md",
        "claude.md",
    }
    | {"copilot-instructions.md", "gemini.md", "skill.md"}
)
_INSTRUCTION_DIRECTORIES = frozenset({".agents", ".claude", ".codex", ".cursor", ".gemini"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Proceed:
    """Nothing more is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A person must be asked first; `change` is what moved since they last agreed."""

    question: str
    change: ManifestChange | None = None
    can_be_kept: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """It does not happen."""

    reason: str
    rule: str


Decision: TypeAlias = Proceed | Ask | Refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the user settled beforehand. Permission to call a server's tools is not among it, and never counts (O5)."""

    dynamic: bool = True
    disabled_skills: frozenset[SkillId] = frozenset()
    disabled_servers: frozenset[ServerLabel] = frozenset()


def decide(
    skill: SkillId,
    entry: SkillEntry,
    approval: Approval | None,
    policy: Policy,
    *,
    change: ManifestChange | None = None,
) -> Decision:
    """May this served skill be loaded? Only an approval of exactly this skill and content lets it proceed unasked."""
    if skill in policy.disabled_skills or skill.server in policy.disabled_servers:
        return Refuse(reason=f"{skill} is disabled.", rule="A5")
    if entry.resources == DYNAMIC:
        if not policy.dynamic:
            return Refuse(reason=f"{skill} is generated anew at each reading, and such skills are declined.", rule="E6")
        return Ask(
            question=f"Load {skill} once? Its content is generated, so nothing can verify it.", can_be_kept=False
        )
    if approval is None or not _about(approval, skill, Grant.LOAD) or not approval.covers(entry.resources):
        return Ask(question=f"Load {skill}?", change=change)
    if approval.answer is Answer.DENY:
        return Refuse(reason=f"{skill} was denied, and it has not changed since.", rule="A1")
    return Proceed()


def decide_read(acting: Iterable[SkillId], target: ServerLabel) -> Decision:
    """May a resource on `target` be read while these skills are acted on? A skill never reads another server (O2)."""
    others = sorted({str(skill.server) for skill in acting if skill.server != target})
    if not others:
        return Proceed()
    return Ask(
        question=f'A skill from "{", ".join(others)}" is in use. Read from the other server "{target}" this once?',
        can_be_kept=False,
    )


def decide_execution(acting: Iterable[tuple[SkillId, SkillEntry, Approval | None]]) -> Decision:
    """May code run while these served skills are acted on? Each needs its own approval of execution (X1)."""
    missing: list[str] = []
    kept = True
    for skill, entry, approval in acting:
        bound = approval is not None and _about(approval, skill, Grant.EXECUTE) and approval.covers(entry.resources)
        if bound and approval is not None and approval.answer is Answer.DENY:
            return Refuse(reason=f"Running code was denied for {skill}.", rule="X1")
        if not bound:
            missing.append(str(skill))
            kept = kept and entry.resources != DYNAMIC
    if not missing:
        return Proceed()
    return Ask(question=f"Run code while these served skills are in use: {'; '.join(missing)}?", can_be_kept=kept)


def granted_tools(skill: SkillId, entry: SkillEntry, approval: Approval | None) -> str:
    """The `allowed-tools` that take effect: none, unless that grant was approved for this very content (X2)."""
    if (
        approval is not None
        and _about(approval, skill, Grant.TOOLS)
        and approval.answer is Answer.ALLOW
        and approval.covers(entry.resources)
    ):
        tools = entry.frontmatter.get("allowed-tools", "")
        return tools if isinstance(tools, str) else ""
    return ""


def inert_fields(frontmatter: Mapping[str, object]) -> tuple[str, ...]:
    """The fields of a served skill that a host could act on and does not: hooks, scripts, requested tools (X1, X2)."""
    return tuple(key for key in frontmatter if key not in _DESCRIPTIVE)


def writes_instructions(path: str) -> bool:
    """True when writing to this path changes what an agent is told later; that passes the gate of X1 too (X4)."""
    segments = [segment.rstrip(" .").lower() for segment in path.replace("\\", "/").split("/")]
    names = [segment for segment in segments if segment]
    return bool(names) and (names[-1] in _INSTRUCTION_FILES or not _INSTRUCTION_DIRECTORIES.isdisjoint(names))


def _about(approval: Approval, skill: SkillId, grant: Grant) -> bool:
    return approval.skill == skill and approval.grant is grant
