"""Publish, verify and use Agent Skills over MCP."""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than everything else here; type checkers know the name
if TYPE_CHECKING:
    from skillquay.core.digests import Digest
    from skillquay.core.drafts import Assurance, Dialect
    from skillquay.core.entries import FileRecord, Manifest, SkillEntry, parse_entry
    from skillquay.core.findings import Finding, Level
    from skillquay.core.folders import Publication, SkillFolder, publish
    from skillquay.core.frontmatter import Frontmatter, differences, parse_frontmatter
    from skillquay.core.lint import lint
    from skillquay.core.listings import parse_entries
    from skillquay.core.questions import About, Question, Reply
    from skillquay.core.uris import SkillUri
    from skillquay.core.verification import VerifiedFile, VerifiedSkill, verify_file, verify_skill
    from skillquay.dialects.templates import Template
    from skillquay.errors import SkillquayError
    from skillquay.host.approver import Approver, CallbackApprover, NobodyToAsk, PolicyApprover
    from skillquay.host.budgets import Budgets
    from skillquay.host.client import SkillsClient
    from skillquay.host.host import SkillHost
    from skillquay.host.oauth import Logins
    from skillquay.host.server_tools import server_tools
    from skillquay.host.terminal import TerminalApprover
    from skillquay.host.tools import (
        Tool,
        ToolResult,
        answer_anthropic,
        answer_openai,
        anthropic_tools,
        openai_tools,
    )
    from skillquay.server.extension import Skills
    from skillquay.sources.directory import SkippedPath, publish_tree, read_tree

__version__ = "0.1.0"

__all__ = [
    "About",
    "Approver",
    "Assurance",
    "Budgets",
    "CallbackApprover",
    "Dialect",
    "Digest",
    "FileRecord",
    "Finding",
    "Frontmatter",
    "Level",
    "Logins",
    "Manifest",
    "NobodyToAsk",
    "PolicyApprover",
    "Publication",
    "Question",
    "Reply",
    "SkillEntry",
    "SkillFolder",
    "SkillHost",
    "SkillUri",
    "SkillquayError",
    "Skills",
    "SkillsClient",
    "SkippedPath",
    "Template",
    "TerminalApprover",
    "Tool",
    "ToolResult",
    "VerifiedFile",
    "VerifiedSkill",
    "__version__",
    "answer_anthropic",
    "answer_openai",
    "anthropic_tools",
    "differences",
    "lint",
    "openai_tools",
    "parse_entries",
    "parse_entry",
    "parse_frontmatter",
    "publish",
    "publish_tree",
    "read_tree",
    "server_tools",
    "verify_file",
    "verify_skill",
]

_HOMES = {
    "core.digests": ("Digest",),
    "core.drafts": ("Assurance", "Dialect"),
    "core.entries": ("FileRecord", "Manifest", "SkillEntry", "parse_entry"),
    "core.listings": ("parse_entries",),
    "core.findings": ("Finding", "Level"),
    "core.folders": ("Publication", "SkillFolder", "publish"),
    "core.frontmatter": ("Frontmatter", "differences", "parse_frontmatter"),
    "core.lint": ("lint",),
    "core.uris": ("SkillUri",),
    "core.verification": ("VerifiedFile", "VerifiedSkill", "verify_file", "verify_skill"),
    "core.questions": ("About", "Question", "Reply"),
    "dialects.templates": ("Template",),
    "errors": ("SkillquayError",),
    "host.approver": ("Approver", "CallbackApprover", "NobodyToAsk", "PolicyApprover"),
    "host.budgets": ("Budgets",),
    "host.client": ("SkillsClient",),
    "host.host": ("SkillHost",),
    "host.oauth": ("Logins",),
    "host.server_tools": ("server_tools",),
    "host.terminal": ("TerminalApprover",),
    "host.tools": (
        "Tool",
        "ToolResult",
        "answer_anthropic",
        "answer_openai",
        "anthropic_tools",
        "openai_tools",
    ),
    "server.extension": ("Skills",),
    "sources.directory": ("SkippedPath", "publish_tree", "read_tree"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that importing the package costs next to nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
