"""Make the tree the benchmarks run on: skills of about 4 KB with four files of about 2 KB each, the same every time."""

from __future__ import annotations

import os
import random
import shutil

WORDS = (
    "branch",
    "commit",
    "order",
    "refund",
    "invoice",
    "ledger",
    "query",
    "index",
    "cache",
    "token",
    "review",
    "digest",
)


def generate(root: str, skills: int, *, teams: int = 40) -> None:
    """Write `skills` skills below `root`, in so many directories, unless a tree of that many is already there."""
    stamp = os.path.join(root, f".made-of-{skills}")
    if os.path.exists(stamp):
        return
    shutil.rmtree(root, ignore_errors=True)
    choose = random.Random(2640)
    for number in range(skills):
        name = f"{choose.choice(WORDS)}-{choose.choice(WORDS)}-{number}"
        directory = os.path.join(root, f"team-{number % teams}", name)
        os.makedirs(os.path.join(directory, "references"), exist_ok=True)
        _write(os.path.join(directory, "SKILL.md"), _skill_md(name, choose))
        for file in ("references/guide.md", "references/examples.md", "notes.md", "run.py"):
            _write(os.path.join(directory, file), _text(choose, 2000))
    _write(stamp, "")


def _skill_md(name: str, choose: random.Random) -> str:
    return (
        f"---\nname: {name}\ndescription: >-\n  {_sentence(choose, 22)}\n  Use when {_sentence(choose, 12)}\n"
        f"license: Apache-2.0\ncompatibility: Needs git and Python {choose.randint(8, 14)}\n"
        f"metadata:\n  author: team-{choose.randint(1, 40)}\n"
        f'  version: "{choose.randint(1, 9)}.{choose.randint(0, 20)}"\n'
        f"  tags: {_sentence(choose, 4)}\n---\n\n# {name}\n\n{_text(choose, 3500)}"
    )


def _text(choose: random.Random, size: int) -> str:
    lines: list[str] = []
    while size > 0:
        lines.append(_sentence(choose, 14))
        size -= len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _sentence(choose: random.Random, words: int) -> str:
    return " ".join(choose.choices(WORDS, k=words)).capitalize() + "."


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
