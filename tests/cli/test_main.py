"""The command itself: its version, its help, and what it costs to start."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import skillquay

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_the_version_is_shown(run: Run) -> None:
    for option in ("--version", "-V"):
        assert run(option).out == f"skillquay {skillquay.__version__}\n"


def test_help_names_every_command(run: Run) -> None:
    done = run("--help")
    assert done.status == 0
    assert "lint" in done.out
    assert "list" in done.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("command", ["--version", "--help", "list ."])
def test_output_that_cannot_be_written_is_said_so_and_is_no_answer(command: str, tmp_path: Path) -> None:
    done = shell(f"{command} >/dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "skillquay: the output cannot be written: No space left on device.\n"


@pytest.mark.parametrize(
    ("command", "status"), [("list . >&-", 0), ("--version >&-", 0), ("list nowhere 2>&-", 2), ("trust <&-", 2)]
)
def test_streams_that_are_closed_do_no_harm(command: str, status: int, tmp_path: Path) -> None:
    done = shell(f"{command} --state kept.db" if "trust" in command else command, tmp_path)
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = f"{shlex.quote(sys.executable)} -m skillquay {command}"
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_the_version_is_shown_without_importing_anything_heavy() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--version']; from skillquay.cli import main; main(); "
        "heavy = {'typer', 'rich', 'yaml', 'mcp', 'pydantic', 'asyncio'} & set(sys.modules); "
        "sys.exit(f'{heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_linting_does_not_import_the_protocol_sdk() -> None:
    code = (
        "import sys; from skillquay.cli import lint, list; "
        "sys.exit('mcp was imported' if {'mcp', 'pydantic'} & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
