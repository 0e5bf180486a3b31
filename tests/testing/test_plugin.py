"""The plugin runs the cases for an author's test, says loudly what was not judged, and costs nothing where unused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

MY_HOST = """
import contextlib

from skillquay.testing import Setup
from tests.testing.careful import CarefulDriver


class Refused(Exception):
    pass


class MyHost:
    Refused = Refused

    def __init__(self, servers, *, state, timeout, ask):
        self.setup = Setup(servers=servers, state=state, local_skills=state / "none", deadline=timeout, ask=ask)
        self.stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        self.host = await self.stack.enter_async_context(CarefulDriver().start(self.setup))
        return self

    async def __aexit__(self, *failure):
        return await self.stack.__aexit__(*failure)

    async def refresh(self):
        return await self.host.listing()

    async def load(self, server, uri):
        outcome = await self.host.load(server, uri)
        return BROKEN or text_of(outcome)

    async def read(self, server, uri, path):
        return text_of(await self.host.read_file(server, uri, path))


def text_of(outcome):
    if outcome.text is None:
        raise Refused(outcome.refused)
    return outcome.text


BROKEN = None
"""


def run_pytest(
    directory: Path, *arguments: str, named: bool = True, installed: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin named on the command line, or there because skillquay is installed, or both."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{directory}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if installed:
        del environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    plugins = [*(("-p", "skillquay.testing.plugin") if named else ()), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "-W", "error", "--rootdir", str(directory), *arguments]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def write_the_documents_test(directory: Path, *, broken: str | None = None) -> None:
    document = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    program = re.findall(r"^```py\n(.*?)^```", document, re.MULTILINE | re.DOTALL)[0]
    (directory / "test_my_host.py").write_text(program, encoding="utf-8")
    (directory / "my_host.py").write_text(MY_HOST.replace("= None", f"= {broken!r}"), encoding="utf-8")


def test_the_test_in_the_document_runs_every_case_and_tells_what_was_not_judged(tmp_path: Path) -> None:
    write_the_documents_test(tmp_path)
    done = run_pytest(tmp_path, "-k", "denied or honest-2025 or instruction-files or unlisted or same-name-as-local")
    assert done.returncode == 0, done.stdout
    assert re.search(r"4 passed, 3 skipped, \d+ deselected", done.stdout)
    assert "hostile publisher: cases that were NOT judged" in done.stdout
    assert "1 need a host with the ability execution, which yours does not declare." in done.stdout
    assert "1 need a host with the ability local, which yours does not declare." in done.stdout
    assert "1 need a host with the ability resources, which yours does not declare." in done.stdout


@pytest.mark.parametrize("named", [False, True])
def test_the_plugin_is_there_once_skillquay_is_installed_and_may_be_named_all_the_same(
    tmp_path: Path, named: bool
) -> None:
    write_the_documents_test(tmp_path)
    done = run_pytest(tmp_path, "-k", "honest-2025", named=named, installed=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"1 passed, \d+ deselected", done.stdout)


def test_a_host_that_fails_is_told_why(tmp_path: Path) -> None:
    write_the_documents_test(tmp_path, broken="The word is vicious-boar.")
    done = run_pytest(tmp_path, "-k", "rotated-skill-md or other-contents")
    assert done.returncode == 1
    assert "2 failed" in done.stdout
    assert "other-contents: Your host loaded skill://refunds/SKILL.md and gave the model" in done.stdout
    assert "NOT judged" not in done.stdout


def test_a_failure_is_the_line_of_the_test_and_a_sentence(tmp_path: Path) -> None:
    write_the_documents_test(tmp_path, broken="The word is vicious-boar.")
    done = run_pytest(tmp_path, "-k", "other-contents")
    assert re.findall(r"^(\S+\.py):\d+", done.stdout, re.MULTILINE) == ["test_my_host.py"]


def test_what_the_host_raised_is_shown_with_its_own_lines_and_none_of_ours(tmp_path: Path) -> None:
    write_the_documents_test(tmp_path)
    with (tmp_path / "my_host.py").open("a", encoding="utf-8") as file:
        file.write("\nasync def refresh(self):\n    raise OSError('the disk is gone')\n\nMyHost.refresh = refresh\n")
    done = run_pytest(tmp_path, "-k", "other-contents")
    assert "other-contents: Your host raised OSError: the disk is gone when it was to list skills." in done.stdout
    shown = re.findall(r"^(\S+\.py):\d+", done.stdout, re.MULTILINE)
    assert "my_host.py" in shown
    assert not any(path.endswith(("running.py", "plugin.py", "runners.py")) for path in shown)


def test_every_case_is_there_under_its_name(tmp_path: Path) -> None:
    from skillquay.testing import hostile_cases

    write_the_documents_test(tmp_path)
    done = run_pytest(tmp_path, "--collect-only", "--quiet")
    assert re.findall(r"\[(.*)\]$", done.stdout, re.MULTILINE) == [case.id for case in hostile_cases()]


def test_a_test_that_takes_no_case_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n\n"
        "def test_nothing_came_in():\n"
        "    ours = {name for name in sys.modules if name.startswith('skillquay')}\n"
        "    assert 'anyio' not in sys.modules\n"
        "    assert ours == {'skillquay', 'skillquay.testing', 'skillquay.testing.plugin'}\n",
        encoding="utf-8",
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
