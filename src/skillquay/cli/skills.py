"""`skillquay skills` and `skillquay search`: every skill there is here, how things stand with it, and what is wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from skillquay.cli.hosting import Place, agree, can_ask, problem_json, run_host, state_problem, waiting, write_json
from skillquay.cli.messages import plural
from skillquay.cli.output import Screen
from skillquay.cli.trust import show_offer
from skillquay.core.hidden import visible
from skillquay.core.identity import SkillId
from skillquay.host.directory import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.host.configuration import Problem
    from skillquay.host.directory import KnownSkill
    from skillquay.host.host import SkillHost

__all__ = ["run", "run_search", "skill_json"]

_STYLES = {
    State.APPROVED: "green",
    State.NEW: "yellow",
    State.CHANGED: "bold yellow",
    State.DENIED: "red",
    State.DISABLED: "dim",
    State.DYNAMIC: "yellow",
    State.UNPROVEN: "yellow",
}


def run(place: Place) -> int:
    """List what is here; 2 when what was approved cannot be read."""
    return run_host(place, partial(_list, place=place), needs_state=False)


def run_search(place: Place, words: list[str], *, limit: int) -> int:
    """List what fits the words best; 1 when nothing does."""
    return run_host(place, partial(_search, place=place, query=" ".join(words), limit=limit))


def skill_json(skill: KnownSkill) -> dict[str, object]:
    """A skill for machines."""
    served = skill.identity if isinstance(skill.identity, SkillId) else None
    return {
        "name": skill.name,
        "description": skill.description,
        "origin": skill.origin,
        "state": skill.state.name.lower(),
        "dialect": None if skill.entry is None else skill.entry.dialect.name.lower(),
        "assurance": None if skill.entry is None else skill.entry.assurance.name.lower(),
        "server": None if served is None else served.server.label,
        "uri": None if served is None else str(served.uri),
        "directory": None if skill.local is None else skill.local.location,
    }


async def _list(host: SkillHost, *, place: Place) -> int:
    trusted = await host.is_trusted()
    if not trusted and host.has_state and host.workspace.offers_anything and can_ask(place):
        await show_offer(host, Screen())
        if await agree("Trust this folder?"):
            await host.people.trust(yes=True)
            with waiting("Looking for skills"):
                await host.refresh()
            trusted = True
    if place.as_json:
        document = {
            "workspace": host.workspace.folder,
            "trusted": trusted,
            "skills": [skill_json(skill) for skill in host.skills],
            "problems": [problem_json(problem) for problem in host.problems],
        }
        write_json(document)
    else:
        _show(Screen(), host.skills, host.problems)
    return 0 if state_problem(host) is None else 2


async def _search(host: SkillHost, *, place: Place, query: str, limit: int) -> int:
    found = await host.search_skills(query, limit=limit)
    if place.as_json:
        write_json({"skills": [skill_json(skill) for skill in found]})
    elif found:
        _show_skills(Screen(), found)
    else:
        Screen().line('No skill fits these words. See all of them with "skillquay skills".')
    return 0 if found else 1


def _show(screen: Screen, skills: tuple[KnownSkill, ...], problems: tuple[Problem, ...]) -> None:
    if skills:
        _show_skills(screen, skills)
        screen.line(f"{plural(len(skills), 'skill')}.")
    else:
        screen.line(
            "No skills. They come from .agents/skills and .claude/skills, here and in your home, and from the servers "
            "in .mcp.json."
        )
    states = {skill.state for skill in skills}
    if State.NEW in states:
        screen.line('Look at one with "skillquay show NAME", and approve it with "skillquay approve NAME".')
    if State.CHANGED in states:
        screen.line('See what changed with "skillquay diff NAME", and approve it again with "skillquay approve NAME".')
    if problems:
        screen.line("")
        screen.line((f"To know ({len(problems):,}):", "bold"))
        screen.rows(
            (Text(visible(problem.subject)), Text(problem.rule), Text(visible(problem.message))) for problem in problems
        )


def _standing(skill: KnownSkill) -> str:
    """How things stand with a skill, and what can be verified of a served one (I9)."""
    return skill.state if skill.entry is None else f"{skill.state}; {skill.entry.assurance}"


def _show_skills(screen: Screen, skills: Iterable[KnownSkill]) -> None:
    screen.rows(
        (
            (
                Text(visible(skill.name), "bold"),
                Text(visible(skill.origin)),
                Text(_standing(skill), _STYLES.get(skill.state, "")),
                Text(visible(" ".join(skill.description.split()))),
            )
            for skill in skills
        ),
        indent=0,
        wrap=False,
    )
