"""The skills that every peer is shown, file by file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BINARY", "DESCRIPTIONS", "GREETING", "LETTER", "LOGO", "REFUNDS", "SKILLS", "files_of", "write_skills"]

DESCRIPTIONS = {"greeting": "Greet a guest: warmly, or not at all.", "refunds": "Refund a customer. Use when one asks."}


def _skill_md(name: str, body: str) -> bytes:
    return f'---\nname: {name}\ndescription: "{DESCRIPTIONS[name]}"\n---\n\n{body}'.encode()


GREETING = _skill_md("greeting", "Say good day, bonne journée or 良い一日を.\n")
REFUNDS = _skill_md("refunds", "Write a letter as in [letter.md](references/letter.md), and run scripts/amount.py.\n")
LETTER = "Dear customer,\n\nhere are your 10 €.\n".encode()
BINARY = bytes(range(256))
LOGO = "assets/logo.bin"

SKILLS: dict[str, dict[str, bytes]] = {
    "greeting": {"SKILL.md": GREETING},
    "refunds": {
        "SKILL.md": REFUNDS,
        "references/letter.md": LETTER,
        "scripts/amount.py": b"print(10)\n",
        LOGO: BINARY,
    },
}


def files_of(name: str) -> dict[str, bytes]:
    """The files of a skill by URI."""
    return {f"skill://{name}/{path}": data for path, data in SKILLS[name].items()}


def write_skills(place: Path) -> Path:
    """A directory with all of them."""
    for name, files in SKILLS.items():
        for path, data in files.items():
            file = place / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    (place / "refunds" / "scripts" / "amount.py").chmod(0o755)
    return place
