"""Write the table of peers into docs/dialects.md, or check that it is up to date.

A test puts itself into the table with `@pytest.mark.interop(peer=..., direction=..., dialect=..., result=...)`. The
table is made from the tests that pytest collects; what is in it was shown by the test that its last column names.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests" / "interop"
DOCUMENT = ROOT / "docs" / "dialects.md"
BEGIN, END = "<!-- interop -->", "<!-- /interop -->"


class Row(NamedTuple):
    """What one test shows of one peer."""

    peer: str
    direction: str
    dialect: str
    result: str


class Collector:
    """Remembers which test shows what."""

    def __init__(self) -> None:
        self.rows: dict[Row, dict[str, None]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest when all tests are known."""
        for item in items:
            name = item.nodeid.partition("[")[0]
            for mark in item.iter_markers("interop"):
                self.rows.setdefault(Row(**mark.kwargs), {})[name] = None


def collect() -> dict[Row, dict[str, None]]:
    """The tests of each row, in the order of collection."""
    collector = Collector()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", str(TESTS)], [collector])
    if status != pytest.ExitCode.OK:
        sys.exit(f"The tests cannot be collected:\n{output.getvalue()}")
    return collector.rows


def render(rows: dict[Row, dict[str, None]]) -> str:
    """The table. Rows of one peer stand together, in the order of its first test."""
    places = {peer: place for place, peer in enumerate(dict.fromkeys(row.peer for row in rows))}
    lines = ["| peer | direction | dialect | result | shown by |", "|---|---|---|---|---|"]
    for row, tests in sorted(rows.items(), key=lambda item: places[item[0].peer]):
        cells = [*(cell.replace("|", "\\|") for cell in row), "<br>".join(map(_test, tests))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _test(name: str) -> str:
    path, _, test = name.partition("::")
    words = test.rpartition("::")[2].removeprefix("test_").replace("_", " ")
    return f"[{words}](../{path})"


def put_into(document: str, table: str) -> str:
    """The document with this table between its marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"docs/dialects.md needs the marks {BEGIN} and {END}, with the table between them.")
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    """Write the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fail when the table is stale instead of writing it")
    check = parser.parse_args().check
    table = render(collect())
    document = DOCUMENT.read_text(encoding="utf-8")
    written = put_into(document, table)
    if not check:
        DOCUMENT.write_text(written, encoding="utf-8")
    elif written != document:
        sys.exit('The table in docs/dialects.md is stale. Run "make rules" and commit the result.')


if __name__ == "__main__":
    main()
