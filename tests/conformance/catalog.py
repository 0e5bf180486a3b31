"""The skills that are served to the judges: a bit of everything that a server of skills has to get right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BINARY", "DYNAMIC", "DYNAMIC_SKILL_MD", "FILES", "PAGE_SIZE", "STATIC", "TAMPERED", "TEXT", "write_catalog"]

PAGE_SIZE: Final = 3  # fewer than there are skills, and than the first skill has children

TEXT: Final = "skill://berth/references/odd%20names/%E6%97%A5%E6%9C%AC%20&%20more.md"
BINARY: Final = "skill://berth/assets/flag.bin"
TAMPERED: Final = "skill://berth/references/tides.md"
DYNAMIC: Final = "skill://reports/daily/SKILL.md"

_RICH: Final = """\
---
name: berth
description: "Moor a ship: bow first, or stern first. Use when a ship comes in."
license: Apache-2.0
compatibility: Needs a quay.
allowed-tools: Read Bash(ls:*)
metadata:
  version: "1.10"
  example.com/reviewed: "2026-01-02"
x-order: [bow, 2, null, true, {stern: 1.5}]
---
# Berth

Read [the tides](references/tides.md) first. Grüße, 船.
"""
_ON_DISK: Final[dict[str, bytes]] = {
    "berth/SKILL.md": _RICH.encode(),
    "berth/assets/flag.bin": bytes(range(256)) * 5,
    "berth/references/tides.md": b"High water is at noon in this harbour.\n",
    "berth/references/odd names/日本 & more.md": "\ufeffZeile eins\r\nline two\n\n\tno newline at the end: é".encode(),
    "berth/scripts/moor.py": b'print("moored")\n',
    "berth/scripts/lib/knots/bowline": b"\x00\xff",
    "berth/templates/empty.txt": b"",
    "cargo/manifests/SKILL.md": b"---\nname: manifests\ndescription: Writes manifests.\n---\n",
    "cargo/manifests/letters/SKILL.md": b"---\r\nname: letters\r\ndescription: Nested in another.\r\n---\r\nBody.\r\n",
    "cargo/manifests/letters/templates/letter.md": b"Dear harbour master,\n",
    **{
        f"fleet/ship-{number}/SKILL.md": f"---\nname: ship-{number}\ndescription: Ship {number}.\n---\n".encode()
        for number in range(6)
    },
}
_PYTHON: Final = """\
from skillquay.server.extension import Skills

skills = Skills()


@skills.skill("reports/daily")
def daily() -> str:
    return {text!r}
"""
DYNAMIC_SKILL_MD: Final = "---\nname: daily\ndescription: The report of the day.\n---\n# Today\n\nAll is quiet.\n"

FILES: Final[dict[str, bytes]] = {f"skill://{quote(path, safe='/&')}": data for path, data in _ON_DISK.items()}
"""What each file of the skills on disk holds, by its URI."""
STATIC: Final = sorted(uri for uri in FILES if uri.endswith("/SKILL.md"))


def write_catalog(root: Path) -> tuple[str, ...]:
    """Write the skills below a directory, and give the paths to serve: a tree, and a Python file's object."""
    for path, data in _ON_DISK.items():
        file = root / "skills" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    python_file = root / "generated.py"
    python_file.write_text(_PYTHON.format(text=DYNAMIC_SKILL_MD), encoding="utf-8")
    return str(root / "skills"), f"{python_file}:skills"
