"""Run commands in processes of their own that need not import everything again: forked from one that has.

As a program, it imports the commands, then reads what to run, one JSON object a line, and writes each exit status.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import skillquay.cli

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Forking"]

_LONGEST = 120  # seconds for a command


class Forking:
    """The process that forks; it is started with the first command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: list[str], *, folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
        """The exit status of a command, its standard output and its standard error."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forking"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parent.parent.parent,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory(prefix="skillquay-command-") as directory:
            out, err = Path(directory, "out"), Path(directory, "err")
            order = {
                "arguments": arguments,
                "folder": str(folder),
                "environment": dict(environment),
                "out": str(out),
                "err": str(err),
            }
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return status, out.read_bytes().decode(), err.read_bytes().decode()

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            with self._process:
                assert self._process.stdin is not None
                self._process.stdin.close()


def _become(order: Mapping[str, Any]) -> None:
    """In the new process: be the command."""
    signal.alarm(_LONGEST)
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, order["out"], os.O_WRONLY | os.O_CREAT),
        (2, order["err"], os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv[1:] = order["arguments"]
    from skillquay.cli import main

    main()


def _serve() -> None:
    for module in pkgutil.iter_modules(skillquay.cli.__path__, "skillquay.cli."):
        importlib.import_module(module.name)
    importlib.import_module("skillquay.host.host")
    importlib.import_module("skillquay.server.app")
    gc.freeze()
    with os.fdopen(os.dup(1), "w") as answers, contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            order = json.loads(line)
            if (child := os.fork()) == 0:
                _become(order)
                sys.exit()
            _, how = os.waitpid(child, 0)
            answers.write(f"{os.waitstatus_to_exitcode(how)}\n")
            answers.flush()


if __name__ == "__main__":
    _serve()
