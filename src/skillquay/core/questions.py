"""What a person is asked, with everything they may want to know before they answer (A2, A5, B4, V4)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from skillquay.core.approvals import requested_tools
from skillquay.core.decisions import inert_fields
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.core.changes import ManifestChange
    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import ServerLabel, SkillId

__all__ = ["About", "Question", "Reply"]

_MOST_FILES = 40


class About(StrEnum):
    """What the answer allows."""

    LOAD = "load"
    EXECUTE = "execute"
    TOOLS = "tools"
    READ = "read"


class Reply(StrEnum):
    """What a person can say."""

    ONCE = "once"
    KEEP = "keep"
    DENY = "deny"
    LATER = "later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. An answer that is kept holds for exactly this content; a denial stands until it changes.

    `change` is None when nothing about this skill was ever answered. `server` is where a read would go.
    """

    about: About
    text: str
    skill: SkillId
    entry: SkillEntry
    change: ManifestChange | None = None
    can_be_kept: bool = True
    server: ServerLabel | None = None
    detail: str = ""

    def lines(self) -> Iterator[str]:
        """All that a person is shown, each line safe to print. What a server says is marked as what it says."""
        entry, server = self.entry, self.skill.server
        yield visible(self.text)
        yield f"  from          MCP server {visible(server.label)} ({visible(server.scope)})"
        yield f"  skill         {visible(entry.uri)}"
        yield f"  says it is    {visible(entry.name)}: {visible(entry.description)}"
        if self.detail:
            yield f"  would {'read' if self.about is About.READ else 'run '}    {shorten(self.detail, 500)}"
        if tools := requested_tools(entry):
            note = "" if self.about is About.TOOLS else " (not granted by this answer)"
            yield f"  asks for      the tools {shorten(tools, 500)}{note}"
        for field in inert_fields(entry.frontmatter):
            if field != "allowed-tools":
                value = json.dumps(entry.frontmatter[field], ensure_ascii=False)
                yield f"  without effect  {shorten(field)}: {shorten(value, 200)}"
        yield from self._files()
        yield from self._change()

    def _files(self) -> Iterator[str]:
        manifest = self.entry.resources
        if not isinstance(manifest, Manifest):
            yield "  files         generated anew at each reading; nothing can verify them"
            return
        yield f"  files         {len(manifest):,}, {manifest.size:,} bytes in all"
        for file in manifest.files[:_MOST_FILES]:
            yield f"    {file.size:>10,}  {visible(self.entry.root.relative(file.uri))}"
        if len(manifest) > _MOST_FILES:
            yield f"    … and {len(manifest) - _MOST_FILES:,} more"

    def _change(self) -> Iterator[str]:
        if self.change is None:
            return
        if not self.change:
            yield "  since then    nothing changed since it was last answered"
            return
        yield "  changed since it was last answered:"
        if self.change.became_dynamic:
            yield "    it has no list of files any more: its content is generated now"
        if self.change.frontmatter_changed:
            yield "    its frontmatter (what it says of itself) is another"
        for word, uris in (
            ("added", self.change.added),
            ("removed", self.change.removed),
            ("rewritten", self.change.rewritten),
        ):
            for uri in uris[:_MOST_FILES]:
                yield f"    {word:<9} {visible(uri)}"
            if len(uris) > _MOST_FILES:
                yield f"    … and {len(uris) - _MOST_FILES:,} more {word}"
