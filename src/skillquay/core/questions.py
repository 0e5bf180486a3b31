"""What a person is asked, with everything they may want to know before they answer (A2, A5, B4, V4, X1)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import unquote

from skillquay.core.approvals import requested_tools
from skillquay.core.calls import call_lines
from skillquay.core.decisions import inert_fields
from skillquay.core.drafts import Dialect
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.core.changes import ManifestChange
    from skillquay.core.drafts import Archive, Draft
    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import ServerLabel, SkillId

__all__ = ["About", "Question", "Reply"]

_MOST_FILES = 40
_MOST_FIELDS = 20
# What a file that is run looks like, by the end of its name or a directory above it.
_RUN_SUFFIXES = frozenset(
    {"applescript", "awk", "bash", "bat", "class", "cjs", "cmd", "com", "command", "csh", "dll", "dylib", "exe", "fish"}
    | {"go", "ipynb", "jar", "js", "ksh", "lua", "mjs", "msi", "php", "pl", "ps1", "psm1", "pth", "py", "pyc", "pyw"}
    | {"pyz", "r", "rb", "scpt", "scr", "sh", "so", "tcl", "ts", "vbs", "wasm", "whl", "wsf", "zsh"}
)
_RUN_DIRECTORIES = frozenset({"bin", "hooks", "scripts"})


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

    `change` is None when nothing about this skill was ever answered. `server` is where a read would go. `detail` is the
    URI that would be read, or the whole call that would run: `{"tool": "bash", "arguments": {"command": "ls"}}`.
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
        if self.detail and self.about is About.READ:
            yield f"  would read    {shorten(self.detail, 500)}"
        if tools := requested_tools(entry):
            note = "" if self.about is About.TOOLS else " (not granted by this answer)"
            yield f"  asks for      the tools {shorten(tools, 500)}{note}"
        fields = [field for field in inert_fields(entry.frontmatter) if field != "allowed-tools"]
        for field in fields[:_MOST_FIELDS]:
            value = json.dumps(entry.frontmatter[field], ensure_ascii=False)
            yield f"  without effect  {shorten(field)}: {shorten(value, 200)}"
        if len(fields) > _MOST_FIELDS:
            yield f"  without effect  … and {len(fields) - _MOST_FIELDS:,} more fields"
        yield from self._files()
        yield from self._change()
        if self.detail and self.about is not About.READ:  # last, where nothing that a server says can push it away
            yield from call_lines(self.detail)

    def _files(self) -> Iterator[str]:
        manifest = self.entry.resources
        draft = self.entry.draft
        yield f"  served as     {self.entry.dialect}: {self.entry.assurance}"
        if not isinstance(manifest, Manifest):
            yield f"  files         {_without_list(draft)}"
            return
        yield f"  files         {len(manifest):,}, {manifest.size:,} bytes in all"
        files = [(self.entry.root.relative(file.uri), file.size) for file in manifest.files]
        files.sort(key=lambda file: not _may_be_run(file[0]))
        for path, size in files[:_MOST_FILES]:
            yield f"    {size:>10,}  {visible(path)}"
        yield from _rest([path for path, _ in files])

    def _change(self) -> Iterator[str]:
        if self.change is None:
            return
        if not self.change:
            yield "  since then    nothing changed since it was last answered"
            return
        yield "  changed since it was last answered:"
        draft = self.entry.draft
        if self.change.served_as:
            yield f"    it was served as {self.change.served_as}, and is now served as {self.entry.dialect}"
        if self.change.became_dynamic and draft is None:
            yield "    it has no list of files any more: its content is generated now"
        elif self.change.became_dynamic:
            yield f"    it is not covered whole any more: {self.entry.assurance}"
        if self.change.frontmatter_changed:
            yield "    its frontmatter (what it says of itself) is another"
        if draft is not None and draft.archive is not None:
            yield from self._other_archive(draft.archive)
            return
        for word, uris in (
            ("added", self.change.added),
            ("removed", self.change.removed),
            ("rewritten", self.change.rewritten),
        ):
            ordered = sorted(uris, key=lambda uri: not _may_be_run(unquote(uri)))
            for uri in ordered[:_MOST_FILES]:
                yield f"    {word:<9} {visible(uri)}"
            yield from _rest([unquote(uri) for uri in ordered], f" {word}")

    def _other_archive(self, archive: Archive) -> Iterator[str]:
        """What was added, removed and rewritten is in the archive: a person who asks for it is shown."""
        assert self.change is not None, "something changed"
        step = f': see what changed with "skillquay diff {visible(self.entry.name)}"'
        hint = step if self.skill.server.scope.startswith("/") else ""  # the command line knows no other servers
        if str(archive.url) in self.change.rewritten:
            yield f"    its archive is another one{hint}"
        elif str(archive.url) in self.change.added:
            yield f"    its files come in this archive now, and did not then{hint}"


def _without_list(draft: Draft | None) -> str:
    """What is told of the files of a skill whose entry does not list them."""
    if draft is None:
        return "generated anew at each reading; nothing can verify them"
    if draft.archive is not None:
        return f"in the archive {visible(draft.archive.url)}, which is fetched when the skill is loaded"
    if draft.dialect is Dialect.PRIMITIVE:
        return "named by its server when the skill is loaded"
    return "not listed by its server; they are read as the instructions name them"


def _may_be_run(path: str) -> bool:
    """True for what may be a script or a program, by its name or for want of a suffix: a person sees these first."""
    *above, name = path.casefold().split("/")
    _, dot, suffix = name.rstrip(" .").rpartition(".")
    return not dot or suffix in _RUN_SUFFIXES or not _RUN_DIRECTORIES.isdisjoint(above)


def _rest(paths: list[str], word: str = "") -> Iterator[str]:
    """How many are not shown; those that may be run come first, and are told of where even they are too many."""
    hidden = paths[_MOST_FILES:]
    if hidden:
        programs = sum(map(_may_be_run, hidden))
        note = f"; {programs:,} of them may be scripts or programs" if programs else ""
        yield f"    … and {len(hidden):,} more{word}{note}"
