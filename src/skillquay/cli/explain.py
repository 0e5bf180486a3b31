"""`skillquay skills --explain LABEL`: what a server speaks, how that was found out, and what it can prove (I5, I9)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from skillquay.cli.hosting import Place, run_host, waiting, write_json
from skillquay.cli.messages import plural
from skillquay.cli.output import Screen
from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import SkillId
from skillquay.errors import SkillquayError

if TYPE_CHECKING:
    from skillquay.dialects.templates import Template
    from skillquay.host.host import SkillHost
    from skillquay.host.servers import SkillServer

__all__ = ["run"]

_MOST_VALUES: Final = 10
_PROVES: Final = {
    Assurance.WHOLE: "An approval is kept until a file changes.",
    Assurance.SKILL_MD: "Their other files are read as they are, so you are asked each time.",
    Assurance.NONE: "You are asked each time.",
}
_MEANING: Final = {
    Dialect.CURRENT: "Each skill comes with a list of its files, their sizes and their digests.",
    Dialect.JUNE: "Each skill comes with the digest of its SKILL.md, and some with an archive that has one.",
    Dialect.MAY: "Each skill comes with a name, a description and an address, and no digest.",
    Dialect.PRIMITIVE: "Each skill is known by its name; its instructions and files come without digests.",
    Dialect.FASTMCP: "Beside each SKILL.md there is a list of the skill's files, their sizes and their digests.",
    Dialect.BARE: "There are SKILL.md files among its resources, and nothing is said of them.",
}


def run(place: Place, label: str) -> int:
    """Explain one server; 1 when no skills were found on it."""
    return run_host(place, partial(_explain, place=place, label=label), needs_state=False)


async def _explain(host: SkillHost, *, place: Place, label: str) -> int:
    server = host.server_named(label)
    spoken = server.dialects.spoken
    counts = _counts(host, server)
    with waiting("Asking for templates"):
        templates = await _templates(server)
    problems = [visible(problem.message) for problem in server.problems]
    if place.as_json:
        document = {
            "server": server.label.label,
            "dialect": None if spoken.dialect is None else spoken.dialect.name.lower(),
            "reasons": list(spoken.reasons),
            "skills": {assurance.name.lower(): count for assurance, count in counts.items()},
            "templates": [
                {"url": each.url, "description": each.description, "values": values} for each, values in templates
            ],
            "problems": problems,
        }
        write_json(document)
        return 0 if spoken.dialect is not None else 1
    screen = Screen()
    if spoken.dialect is None:
        screen.line((f'No skills were found on the server "{server.label}".', "bold"))
    else:
        screen.line((f'The server "{server.label}" speaks: {spoken.dialect}.', "bold"))
        screen.line(_MEANING[spoken.dialect])
    screen.line("How that was found out:")
    for reason in spoken.reasons or ("It could not be asked.",):
        screen.hanging(f"  - {visible(reason)}", 4)
    if any("may not be searched" in reason for reason in spoken.reasons):
        screen.hanging('  To allow it, put "scanForSkills": true into its entry in .mcp.json.', 2)
    if counts:
        screen.line("What it can prove:")
        for assurance, count in counts.items():
            screen.hanging(f"  - {plural(count, 'skill')}: {assurance}. {_PROVES[assurance]}", 4)
    if templates:
        screen.line("Templates, for people to browse by:")
        for template, values in templates:
            screen.hanging(f"  - {shorten(template.url, 200)}  {shorten(template.description, 200)}", 4)
            for variable, proposed in values.items():
                more = ", …" if len(proposed) > _MOST_VALUES else ""
                shown = ", ".join(shorten(value) for value in proposed[:_MOST_VALUES])
                screen.hanging(f"      {variable}: {shown}{more}", 8)
    for problem in problems:
        screen.hanging(f"To know: {problem}", 9)
    return 0 if spoken.dialect is not None else 1


def _counts(host: SkillHost, server: SkillServer) -> dict[Assurance, int]:
    counts: dict[Assurance, int] = {}
    for skill in host.skills:
        if skill.entry is not None and isinstance(skill.identity, SkillId) and skill.identity.server == server.label:
            counts[skill.entry.assurance] = counts.get(skill.entry.assurance, 0) + 1
    return {assurance: counts[assurance] for assurance in Assurance if assurance in counts}


async def _templates(server: SkillServer) -> list[tuple[Template, dict[str, list[str]]]]:
    """What there is to browse. A server that does not say is none that fails."""
    found = []
    try:
        for template in await server.dialects.templates():
            values = {each: list(await server.dialects.complete(template, each)) for each in template.variables}
            found.append((template, {each: proposed for each, proposed in values.items() if proposed}))
    except SkillquayError:
        return found
    return found
