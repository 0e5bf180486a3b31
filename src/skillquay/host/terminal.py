"""Ask a person at a terminal, and show them what they want to see first (A5, B4)."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, TextIO

from anyio import to_thread
from rich.cells import chop_cells

from skillquay.core.entries import Manifest
from skillquay.core.hidden import find_hidden, visible
from skillquay.core.questions import Question, Reply
from skillquay.errors import SkillquayError
from skillquay.host.approver import Approver, Inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["TerminalApprover", "shown_content"]

_REPLIES = {
    "o": Reply.ONCE,
    "once": Reply.ONCE,
    "k": Reply.KEEP,
    "keep": Reply.KEEP,
    "d": Reply.DENY,
    "deny": Reply.DENY,
}
_GOES_ON = "      … "
_NARROWEST = 40
_CHOICES = "[o]nce, [k]eep for this content, [d]eny until it changes, [s]how a file, Enter for not now: "
_WITHOUT_KEEP = "[o]nce, [d]eny, [s]how a file, Enter for not now: "


class TerminalApprover(Approver):
    """A person at a terminal. Without one, nothing is approved."""

    def __init__(self, source: TextIO | None = None, screen: TextIO | None = None) -> None:
        self._source = source or sys.stdin
        self._screen = screen or sys.stderr

    async def ask(self, question: Question, inspect: Inspect) -> Reply:
        """Show the question, then files as long as they are wanted, then take the answer."""
        if not self._source.isatty():
            return Reply.LATER
        self._write(*question.lines())
        choices = _CHOICES if question.can_be_kept else _WITHOUT_KEEP
        while True:
            said = (await self._read(choices)).lower()
            if said in {"s", "show"}:
                await self._show(question, inspect)
            elif said in _REPLIES:
                reply = _REPLIES[said]
                if reply is not Reply.KEEP or question.can_be_kept:
                    return reply
            elif not said:
                return Reply.LATER

    async def ask_all(self, questions: Sequence[Question], inspect: Callable[[Question], Inspect]) -> list[Reply]:
        """Show all in short; one answer for all of them, or each on its own."""
        if not self._source.isatty() or len(questions) < 2:
            return await super().ask_all(questions, inspect)
        for question in questions:
            changed = "" if question.change is None else "  (changed since it was last answered)"
            self._write(f"  {visible(question.entry.uri)}: {visible(question.entry.description)}{changed}")
        server = visible(questions[0].skill.server.label)
        while True:
            said = (
                await self._read(f"{len(questions)} skills of {server}: [a]ll, [e]ach, [n]one, Enter for not now: ")
            ).lower()
            if said in {"a", "all"}:
                return [Reply.KEEP if question.can_be_kept else Reply.ONCE for question in questions]
            if said in {"n", "none"}:
                return [Reply.DENY] * len(questions)
            if said in {"e", "each"}:
                return await super().ask_all(questions, inspect)
            if not said:
                return [Reply.LATER] * len(questions)

    async def _show(self, question: Question, inspect: Inspect) -> None:
        path = "SKILL.md"
        if isinstance(question.entry.resources, Manifest) and len(question.entry.resources) > 1:
            path = await self._read("which file (Enter for SKILL.md): ") or path
        try:
            self._write(*shown_content(await inspect(path)))
        except SkillquayError as error:
            self._write(error.message)

    async def _read(self, prompt: str) -> str:
        self._screen.write(prompt)
        self._screen.flush()
        line: str = await to_thread.run_sync(self._source.readline, abandon_on_cancel=True)
        return line.strip()

    def _write(self, *lines: str) -> None:
        width = max(shutil.get_terminal_size().columns, _NARROWEST)
        self._screen.write("".join(f"{row}\n" for line in lines for row in _rows(line, width)))


def _rows(line: str, width: int) -> Iterator[str]:
    """One line as rows of a terminal. What goes on behind a mark cannot pass for a line of ours."""
    first, *rest = chop_cells(line, width) or [""]
    yield first
    for piece in chop_cells("".join(rest), width - len(_GOES_ON)) if rest else ():
        yield _GOES_ON + piece


def shown_content(text: str) -> Iterator[str]:
    """A text from outside as a person may see it: hidden characters written out, and told of (B4)."""
    for hidden in find_hidden(text):
        yield f"! line {hidden.line}: {hidden.kind}"
    for line in text.split("\n"):
        yield "  | " + visible(line.removesuffix("\r").replace("\t", "    "))
