"""What a host must have found of the skills that every peer is shown, and what it must be able to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillquay.core.drafts import Assurance
from skillquay.host.directory import State
from tests.interop.skills import BINARY, DESCRIPTIONS, LETTER, LOGO

if TYPE_CHECKING:
    from skillquay.core.drafts import Dialect
    from skillquay.host.host import SkillHost
    from tests.host.scripted import Person

__all__ = ["check_found", "check_loading"]


def check_found(host: SkillHost, dialect: Dialect, assurance: Assurance, *, described: bool = True) -> None:
    """Every skill is there once, read in this dialect; `described` when their server tells what they are for."""
    assert host.problems == ()
    assert [skill.name for skill in host.skills] == list(DESCRIPTIONS)
    assert not described or [skill.description for skill in host.skills] == list(DESCRIPTIONS.values())
    entries = [skill.entry for skill in host.skills]
    assert {(entry.dialect, entry.assurance) for entry in entries if entry} == {(dialect, assurance)}


async def check_loading(host: SkillHost, person: Person) -> None:
    """A skill and its files can be used. Where not all of it can be verified, the user is told and asked anew (I9)."""
    entry = host.find("refunds").entry
    assert entry is not None
    assurance = entry.assurance
    loaded = await host.read_skill("refunds")
    assert "Write a letter as in [letter.md](references/letter.md)" in loaded
    assert f"; {assurance}" in loaded.partition("\n")[0]
    assert LETTER.decode() in await host.read_skill_file("refunds", "references/letter.md")
    assert await host.read_skill_bytes("refunds", LOGO) == BINARY
    assert len(person.asked) == 1
    assert assurance in person.shown
    host.release("refunds")
    await host.read_skill("refunds")
    assert len(person.asked) == (1 if assurance is Assurance.WHOLE else 2)
    await host.survey()
    assert (host.find("refunds").state is State.APPROVED) == (assurance is Assurance.WHOLE)
