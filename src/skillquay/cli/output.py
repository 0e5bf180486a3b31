"""How commands show much: colour and wrapping only on a terminal, progress only on one."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skillquay.core.findings import Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["LEVEL_STYLE", "Screen", "counted"]

Item = TypeVar("Item")

LEVEL_STYLE = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan"}
_NARROW = 60  # columns below which a table has no room for sentences
_PATIENCE = 0.4  # seconds of silence a person does not mind


class Screen:
    """Standard output, or `stderr`. On a terminal, text is styled and wrapped; elsewhere each line is one line."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
        self._stream = sys.stderr if stderr else sys.stdout
        self.is_terminal = self._console.is_terminal

    def line(self, *parts: tuple[str, str] | str) -> None:
        """One line of parts, each a text or a text and its style."""
        text = Text.assemble(*parts)
        if self.is_terminal:
            self._console.print(text)
        else:
            self._stream.write(f"{text.plain}\n")

    def hanging(self, line: str, indent: int, style: str = "") -> None:
        """A line with text from outside. What does not fit goes on below, indented, and passes for no other line."""
        if not self.is_terminal or 2 * len(line) <= self._console.width:
            self.line((line, style))
            return
        width = max(self._console.width - indent, 20)
        head = line[:indent]
        for part in Text(line[indent:], style).wrap(self._console, width, overflow="fold"):
            part.rstrip()
            self._console.print(Text(head, style).append_text(part), soft_wrap=True)
            head = " " * indent

    def rows(self, rows: Iterable[tuple[Text, ...]], *, indent: int = 2, wrap: bool = True) -> None:
        """Columns as wide as they need to be; on a terminal the last one wraps in the rest of the line, or is cut."""
        table = list(rows)
        if self.is_terminal and wrap and table and self._console.width >= _NARROW:
            self._wrap(table, indent)
            return
        widths = [max(len(cell.plain) for cell in column) for column in zip(*table, strict=True)]
        for *cells, last in table:
            line = Text(" " * indent)
            for cell, width in zip(cells, widths, strict=False):
                cell.pad_right(width - len(cell.plain) + 2)
                line.append_text(cell)
            line.append_text(last)
            line.rstrip()
            if self.is_terminal and not wrap:
                line.truncate(self._console.width, overflow="ellipsis")
                self._console.print(line, no_wrap=True)
            elif self.is_terminal:
                self._console.print(line, soft_wrap=True)
            else:
                self._stream.write(f"{line.plain}\n")

    def _wrap(self, table: list[tuple[Text, ...]], indent: int) -> None:
        grid = Table.grid(padding=(0, 2))
        for index in range(len(table[0]) - 1):
            grid.add_column(no_wrap=True, max_width=40 if index == 0 else None)
        grid.add_column(ratio=1, overflow="fold")
        for row in table:
            grid.add_row(*row)
        self._console.print(Padding(grid, (0, 0, 0, indent)))


@contextmanager
def counted(items: Iterable[Item], noun: str) -> Iterator[Iterator[Item]]:
    """Pass items on, and tell a person at a terminal how many there were so far once it takes long."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield iter(items)
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn

    with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True) as progress:
        task = progress.add_task("", visible=False)

        def passing() -> Iterator[Item]:
            start = time.monotonic()
            for count, item in enumerate(items, 1):
                if count % 50 == 0 and time.monotonic() - start > _PATIENCE:
                    progress.update(task, description=f"{count:,} {noun}", visible=True)
                yield item

        yield passing()
