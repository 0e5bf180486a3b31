"""Run the real command in a process of its own, with or without a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.cli.forking import Forking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-m", "skillquay"]
PLAIN = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    status: int
    out: str
    err: str = ""


class Run(Protocol):
    def __call__(self, *arguments: str | Path, **environment: str) -> Outcome: ...


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str | Path, **environment: str) -> Outcome:
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            capture_output=True,
            cwd=tmp_path,
            env=PLAIN | environment,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        return Outcome(status=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    return run


@pytest.fixture
def run_in_terminal(tmp_path: Path) -> Run:
    def run(*arguments: str | Path, answer: str = "", **environment: str) -> Outcome:
        master, slave = pty.openpty()
        environment = {"TERM": "xterm-256color", "COLUMNS": "80"} | environment
        with subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=tmp_path,
            env=PLAIN | environment,
        ) as process:
            os.close(slave)
            os.write(master, answer.encode())
            seen = b""
            while True:
                try:
                    data = os.read(master, 65536)
                except OSError:  # Linux says so when the other side is gone
                    break
                if not data:
                    break
                seen += data
        os.close(master)
        return Outcome(status=process.returncode, out=seen.decode())

    return run


@pytest.fixture
def private(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing of this machine's user is read or written."""
    names = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config"}
    (tmp_path / "home").mkdir()
    return {name: str(tmp_path / directory) for name, directory in names.items()}


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    forking = Forking()
    yield forking
    forking.close()


@pytest.fixture
def host(forking: Forking, tmp_path: Path, private: dict[str, str]) -> Run:
    """Run a command of the host in a folder, for a user, that are new."""

    def run(*arguments: str | Path, **environment: str) -> Outcome:
        whole = PLAIN | private | environment
        status, out, err = forking.run([*map(str, arguments)], folder=tmp_path, environment=whole)
        return Outcome(status=status, out=out, err=err)

    return run


@pytest.fixture
def host_in_terminal(run_in_terminal: Run, private: dict[str, str]) -> Run:
    """The same at a terminal, a wide one; `answer` is what the person types."""
    return lambda *arguments, **environment: run_in_terminal(*arguments, **(private | {"COLUMNS": "300"} | environment))


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """Three skills: a good one, one with a warning, one that cannot be published."""
    root = tmp_path / "skills"
    write(root / "good", "---\nname: good\ndescription: Does good things.\n---\n# Good\n")
    write(root / "warned", "---\nname: warned\ndescription: Warns.\nmetadata:\n  version: 1.10\n---\n")
    write(root / "broken", "---\nname: broken\ndescription: Use when: asked\n---\n")
    return root


def write(directory: Path, skill_md: str) -> Path:
    directory.mkdir(parents=True)
    (directory / "SKILL.md").write_text(skill_md, encoding="utf-8", newline="")
    return directory


def configure(folder: Path, **servers: str | list[str]) -> None:
    """Write a `.mcp.json`: each server is a URL, or a command and its arguments."""
    described = {
        label: {"url": server} if isinstance(server, str) else {"command": server[0], "args": server[1:]}
        for label, server in servers.items()
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": described}), encoding="utf-8")
