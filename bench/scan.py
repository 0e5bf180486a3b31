"""Scan, parse and hash a tree, against the floor: a bare walk, a bare read and hash, a bare pass over YAML events.

Each measurement is a process of its own, so that none warms another up; they take turns, and medians are compared.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from hashlib import sha256

from yaml.cyaml import CParser  # type: ignore[attr-defined]


def walk(root: str) -> list[str]:
    """Every file below `root`, each looked at with stat, and nothing else."""
    files: list[str] = []
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as scan:
            for entry in scan:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    files.append(entry.path)
    return files


def read_and_hash(files: list[str]) -> None:
    for path in files:
        with open(path, "rb") as file:
            sha256(file.read()).hexdigest()


def pass_over_events(frontmatters: list[bytes]) -> None:
    for yaml in frontmatters:
        get_event = CParser(yaml).get_event
        while get_event() is not None:
            pass


def floor(root: str) -> float:
    start = time.perf_counter()
    files = walk(root)
    read_and_hash(files)
    spent = time.perf_counter() - start
    frontmatters = [_frontmatter(path) for path in files if path.endswith("/SKILL.md")]
    start = time.perf_counter()
    pass_over_events(frontmatters)
    return spent + time.perf_counter() - start


def skillquay(root: str) -> float:
    from skillquay.sources.directory import SkippedPath, publish_tree

    start = time.perf_counter()
    entries = [item.entry for item in publish_tree(root) if not isinstance(item, SkippedPath) and item.entry]
    spent = time.perf_counter() - start
    assert entries
    return spent


def _frontmatter(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read().split(b"---\n", 2)[1]


if __name__ == "__main__":
    seconds = {"floor": floor, "skillquay": skillquay}[sys.argv[1]](sys.argv[2])
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
