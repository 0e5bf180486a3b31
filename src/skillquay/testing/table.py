"""The table of all cases for the documents: what each server does, and which rules it is about."""

from __future__ import annotations

from skillquay.testing.cases import THEMES

__all__ = ["case_table"]


def case_table() -> str:
    """Every case by theme, in Markdown."""
    parts: list[str] = []
    for theme, cases in THEMES.items():
        rows = [
            f"| `{case.id}` | {case.title} | {', '.join(case.rules)} | {', '.join(sorted(case.needs))} |"
            for case in cases
        ]
        parts.append(
            "\n".join([f"### {theme}", "", "| case | what happens | rules | needs |", "|---|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"
