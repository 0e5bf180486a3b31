"""Run the programs of others that `make peers` installs below `.peers`."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["Done", "peer", "run"]

PEERS = Path(__file__).parent.parent.parent / ".peers"
TIMEOUT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    status: int
    out: str
    err: str


def peer(*path: str) -> Path:
    """A file below `.peers`, which must be there."""
    file = PEERS.joinpath(*path)
    if not file.exists():
        pytest.fail(f'{file} is missing, so the peers cannot be asked. Run "make peers" first.')
    return file


def run(home: Path, *command: str | Path, **more: str) -> Done:
    """Run a program that may write what it likes below `home`."""
    path = os.pathsep.join((str(PEERS / "fastmcp" / "bin"), os.environ["PATH"]))
    environment = {"PATH": path, "HOME": str(home), "NO_COLOR": "1", **more}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        cwd=home,
        encoding="utf-8",
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT,
        check=False,
    )
    return Done(status=done.returncode, out=done.stdout, err=done.stderr)
