"""May this go on? Every question of permission about served skills, answered from values alone (A, O2, O5, V3, X)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from skillquay.core.approvals import Answer, Approval, Grant, requested_tools
from skillquay.core.changes import compare
from skillquay.core.drafts import Assurance

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
    "decide_recovery",
    "granted_tools",
    "inert_fields",
    "model_may_load",
    "writes_instructions",
]

# Frontmatter fields of the format that say what a skill is. Anything else could ask a host to do something, and a
# served skill's is never acted on; of these, allowed-tools needs a grant of its own (X1, X2).
_DESCRIPTIVE = frozenset({"name", "description", "license", "compatibility", "metadata"})
# What agents read as instructions or settings at their next start: names of files and of directories (X4).
_INSTRUCTION_FILES = frozenset(
    {".aider.conf.yml", ".claude.json", ".continuerules", ".cursorrules", ".goosehints", ".mcp.json", ".roorules"}
    | {".rules", ".windsurfrules", "agent.md", "agents.md", "agents.override.md", "claude.local.md", "claude.md"}
    | {"claude_desktop_config.json", "cline_mcp_settings.json", "conventions.md", "copilot-instructions.md", "crush.md"}
    | {"gemini.md", "mcp-config.json", "opencode.json", "qwen.md", "skill.md", "warp.md"}
)
_INSTRUCTION_DIRECTORIES = frozenset(
    {".agent", ".agents", ".amazonq", ".amp", ".augment", ".claude", ".cline", ".clinerules", ".codex", ".continue"}
    | {".copilot", ".cursor", ".factory", ".gemini", ".goose", ".junie", ".kilocode", ".kiro", ".opencode"}
    | {".openhands", ".qwen", ".roo", ".trae", ".vscode", ".windsurf", "goose", "opencode"}
)
_INSTRUCTIONS = _INSTRUCTION_FILES | _INSTRUCTION_DIRECTORIES
_INSTRUCTIONS_SUFFIXES = (".agent.md", ".chatmode.md", ".instructions.md", ".prompt.md")
# What a shell replaces, the words it is in, and what is left of our names around it.
_GLOB = re.compile(r"\{[^{}]*+\}|\[[^\[\]]*+\]|[*?\[\]{}]")
_BETWEEN_WORDS = re.compile(r"[\s'\"`=<>|;&()]+")
_SHORTEST = min(map(len, _INSTRUCTIONS))
_BEGINNINGS = frozenset(name[:end] for name in _INSTRUCTIONS for end in range(1, len(name) + 1))
_PIECES = frozenset(
    name[start:end]
    for name in (*_INSTRUCTIONS, *_INSTRUCTIONS_SUFFIXES)
    for start in range(len(name))
    for end in range(start + 1, len(name) + 1)
)
# A drive before a name, what follows a name in an NTFS stream, and what HFS+ leaves out when it compares names.
_NOT_IN_NAMES = re.compile("^[a-z]:|(?<=.):.*|[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


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
    if entry.assurance is not Assurance.WHOLE:
        why = _unverifiable(entry)
        if not policy.dynamic:
            return Refuse(reason=f"{skill} {why}, and such skills are declined.", rule="E6")
        return Ask(question=f"Load {skill} once? It {why}.", change=change, can_be_kept=False)
    if approval is None or not _about(approval, skill, Grant.LOAD) or not approval.covers(entry):
        return Ask(question=f"Load {skill}?", change=change)
    if approval.answer is not Answer.ALLOW:
        return Refuse(reason=f"{skill} was denied, and it has not changed since.", rule="A1")
    return Proceed()


def decide_recovery(skill: SkillId, held: SkillEntry, fresh: SkillEntry, policy: Policy) -> Decision:
    """What follows a failed check or a file that is gone, given the entry that one `skills/get` brought (V3).

    An entry that says the same again leaves nothing to try. Any other is asked about anew, whatever stood before.
    """
    if held.says == fresh.says:
        return Refuse(reason=f"{skill} is not what its server says it is, and its entry has not changed.", rule="V3")
    change = replace(compare(held.pairs or (), fresh.pairs), frontmatter_changed=held.shown != fresh.shown)
    return decide(skill, fresh, None, policy, change=change)


def decide_read(acting: Iterable[SkillId], target: ServerLabel) -> Decision:
    """May a resource on `target` be read while these skills are acted on? A skill never reads another server (O2)."""
    others = sorted({skill.server for skill in acting if skill.server != target})
    if not others:
        return Proceed()
    in_use = ", ".join(f'"{server.told_from(target)}"' for server in others)
    named = target.told_from(*others)
    return Ask(
        question=f'A skill from {in_use} is in use. Read from the other server "{named}" this once?', can_be_kept=False
    )


def decide_execution(acting: Iterable[tuple[SkillId, SkillEntry, Approval | None]]) -> Decision:
    """May code run while these served skills are acted on? Each needs its own approval of execution (X1)."""
    missing: list[str] = []
    kept = True
    for skill, entry, approval in acting:
        if approval is None or not _about(approval, skill, Grant.EXECUTE) or not approval.covers(entry):
            missing.append(str(skill))
            kept = kept and entry.assurance is Assurance.WHOLE
        elif approval.answer is not Answer.ALLOW:
            return Refuse(reason=f"Running code was denied for {skill}.", rule="X1")
    if not missing:
        return Proceed()
    return Ask(question=f"Run code while these served skills are in use: {'; '.join(missing)}?", can_be_kept=kept)


def granted_tools(skill: SkillId, entry: SkillEntry, approval: Approval | None) -> str:
    """The `allowed-tools` that take effect: none, unless these very tools were approved for this very content (X2)."""
    tools = requested_tools(entry)
    if (
        approval is not None
        and _about(approval, skill, Grant.TOOLS)
        and approval.answer is Answer.ALLOW
        and approval.covers(entry)
    ):
        return tools
    return ""


def inert_fields(frontmatter: Mapping[str, object]) -> tuple[str, ...]:
    """The fields of a served skill that a host could act on and does not: hooks, scripts, requested tools (X1, X2)."""
    return tuple(key for key in frontmatter if key not in _DESCRIPTIVE)


def model_may_load(frontmatter: Mapping[str, object]) -> bool:
    """False for a skill that only people may load; a value of the field that is not plainly a no counts as yes (P2)."""
    return str(frontmatter.get("disable-model-invocation", False)).strip().lower() in {
        "false",
        "no",
        "off",
        "0",
        "none",
    }


def writes_instructions(path: str) -> bool:
    """True when writing to this path changes what an agent is told later; that passes the gate of X1 too (X4).

    Names are compared as the most forgiving file system would, and anywhere in the path: asking once too often is
    cheap, a file system that finds `AGENTS.md` under a spelling not thought of here is not. The same goes for names
    that a shell completes, such as `AGENTS.m?`.
    """
    segments = unquote(path).casefold().replace("\\", "/").split("/")
    names = [_NOT_IN_NAMES.sub("", segment).rstrip(" .") for segment in segments]
    return any(name in _INSTRUCTIONS or name.endswith(_INSTRUCTIONS_SUFFIXES) for name in names) or any(
        _may_complete(word)
        for segment in segments
        if _GLOB.search(segment)
        for word in _BETWEEN_WORDS.split(_NOT_IN_NAMES.sub("", segment))
    )


def _may_complete(word: str) -> bool:
    """True when a shell could make one of our names of this word: by how it begins, and by all that is fixed in it."""
    beginning, *others = _GLOB.split(word.rstrip(" ."))
    fixed = [piece for piece in others if piece]
    if not others or not (beginning or fixed):
        return False
    if "*" not in word and "{" not in word and len("".join((beginning, *fixed))) + len(others) < _SHORTEST:
        return False  # such as `a[0]`
    return (not beginning or beginning in _BEGINNINGS) and all(piece in _PIECES for piece in fixed)


def _unverifiable(entry: SkillEntry) -> str:
    if entry.draft is None:
        return "is generated anew at each reading, so nothing can verify it"
    if entry.assurance is Assurance.SKILL_MD:
        return "is served in a way that lets only its SKILL.md be verified"
    return "is served in a way that lets nothing be verified"


def _about(approval: Approval, skill: SkillId, grant: Grant) -> bool:
    return approval.skill == skill and approval.grant is grant
