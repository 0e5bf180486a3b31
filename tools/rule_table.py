"""Write docs/rules.md, the table of every rule and the tests that prove it, or check that it is up to date.

A test proves a rule when it is marked with the rule's id: `@pytest.mark.rule("F2")`. The table is made from the tests
that pytest collects; nothing in it is typed by hand. A rule without a test is shown as such.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RULES = ROOT / "tests" / "rules.toml"
TABLE = ROOT / "docs" / "rules.md"

HEADING = """\
# Rules and the tests that prove them

Made by `make rules` from the marks on the tests; `make check` fails when it is stale. Nothing is claimed here that no
test proves: a rule whose last column is empty is **not proven yet**, and where a rule is proven in part, the column
begins with what is still open. Sides: S server, H host, B both.
"""


class Collector:
    """Remembers which tests carry which rule ids."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, None]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest when all tests are known."""
        for item in items:
            name = item.nodeid.partition("[")[0]
            for mark in item.iter_markers("rule"):
                for rule in mark.args:
                    self.tests.setdefault(rule, {})[name] = None


def collect() -> dict[str, dict[str, None]]:
    """The tests of each rule, in the order of collection."""
    collector = Collector()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", str(ROOT / "tests")], [collector])
    if status != pytest.ExitCode.OK:
        sys.exit(f"The tests cannot be collected:\n{output.getvalue()}")
    return collector.tests


def render(tests: dict[str, dict[str, None]]) -> str:
    """The document."""
    rules = tomllib.loads(RULES.read_text(encoding="utf-8"))
    if unknown := sorted(tests.keys() - rules.keys()):
        sys.exit(f"Tests are marked with rules that tests/rules.toml does not have: {', '.join(unknown)}.")
    whole = sum(rule in tests and "open" not in about for rule, about in rules.items())
    part = sum(rule in tests and "open" in about for rule, about in rules.items())
    proofs = sum(map(len, tests.values()))
    lines = [HEADING, f"Of {len(rules)} rules, {whole} are proven, {part} in part; {proofs} proofs in all."]
    section = None
    for rule, about in rules.items():
        if about["section"] != section:
            section = about["section"]
            lines += ["", f"## {section}", "", "| id | side | rule | proven by |", "|---|---|---|---|"]
        proofs_of = [f"*Open: {about['open']}.*"] if "open" in about and rule in tests else []
        proofs_of += map(_test, tests.get(rule, ()))
        cells = [rule, about["side"], _cell(about["text"]), "<br>".join(proofs_of)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _test(name: str) -> str:
    path, _, test = name.partition("::")
    words = test.rpartition("::")[2].removeprefix("test_").replace("_", " ")
    return f"[{words}](../{path})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fail when the table is stale instead of writing it")
    check = parser.parse_args().check
    table = render(collect())
    if not check:
        TABLE.write_text(table, encoding="utf-8")
    elif not TABLE.exists() or TABLE.read_text(encoding="utf-8") != table:
        sys.exit('docs/rules.md is stale. Run "make rules" and commit the result.')


if __name__ == "__main__":
    main()
