"""The command itself: its version, its help, and what it costs to start."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

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
