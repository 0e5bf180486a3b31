"""Ask skills-ref which skills it refuses: `python ask_skills_ref.py DIRECTORY` prints {skill: null or the reason}.

Every directory right below DIRECTORY is one tree; each skill in it is validated alone by `skills_ref.validate`, as the
command `skills-ref validate` does. Run it with the Python that has `skills-ref`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from skills_ref import validate  # type: ignore[import-not-found]


def ask(skill: Path) -> str | None:
    try:
        return " ".join(validate(skill)) or None
    except Exception as error:  # noqa: BLE001 - a validator that breaks on a skill does not pass it
        return f"{type(error).__name__}: {error}"


def main(root: Path) -> None:
    answers: dict[str, str | None] = {}
    for tree in sorted(root.iterdir()):
        for directory, _, files in os.walk(tree):
            if "SKILL.md" in files and directory != str(tree):
                answers[Path(directory).relative_to(root).as_posix()] = ask(Path(directory))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
