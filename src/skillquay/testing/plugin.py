"""The pytest plugin: a test that takes `hostile_case` runs once for each case, against your `skill_host_driver`.

It does nothing, and imports nothing of skillquay, for tests that do not take it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from skillquay.testing.driver import HostDriver

__all__ = ["RunCase", "hostile_case", "pytest_generate_tests", "pytest_terminal_summary"]

_NOT_JUDGED = re.compile(r"Not judged: \S+ needs a host with the ability ([a-z, ]+)\.")


class RunCase(Protocol):
    """Runs one case against the host; the options are those of `Case.run`."""

    def __call__(self, *, deadline: float = 1.0, patience: float = 30.0, version: str | None = None) -> None:
        """Pass, fail with a `Breach`, or skip."""
        ...


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test that takes `hostile_case` run for each of them."""
    if "hostile_case" in metafunc.fixturenames:
        from skillquay.testing.cases import hostile_cases  # noqa: PLC0415 - only where it is used

        metafunc.parametrize("hostile_case", hostile_cases(), indirect=True, ids=str)


@pytest.fixture
def hostile_case(request: pytest.FixtureRequest, skill_host_driver: HostDriver) -> RunCase:
    """One case, to be called. The fixture `skill_host_driver` is yours to write."""
    import anyio  # noqa: PLC0415 - only where it is used

    from skillquay.testing.running import Breach  # noqa: PLC0415 - only where it is used

    def run(*, deadline: float = 1.0, patience: float = 30.0, version: str | None = None) -> None:
        __tracebackhide__ = True

        async def play() -> None:
            await request.param.run(skill_host_driver, deadline=deadline, patience=patience, version=version)

        try:
            anyio.run(play)
        except Breach as breach:
            raise breach.with_traceback(None) from breach.__cause__  # what the host raised is shown, our way to it not

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what was not judged."""
    skipped = (_NOT_JUDGED.search(str(report.longrepr)) for report in terminalreporter.stats.get("skipped", ()))
    lacking = Counter(ability for match in skipped if match for ability in match[1].split(", "))
    if lacking:
        terminalreporter.section("hostile publisher: cases that were NOT judged", yellow=True)
        for ability, cases in sorted(lacking.items()):
            terminalreporter.line(f"{cases} need a host with the ability {ability}, which yours does not declare.")
