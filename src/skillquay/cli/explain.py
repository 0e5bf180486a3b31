"""`skillquay skills --explain LABEL`: what a server speaks, how that was found out, and what it can prove (I5, I9)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from skillquay.cli.hosting import Place, run_host, waiting, write_json
from skillquay.cli.messages import plural
from skillquay.cli.output import Screen
from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import SkillId
from skillquay.errors import SkillquayError
from skillquay.host.fetching import is_packed

if TYPE_CHECKING:
    from skillquay.core.entries import SkillEntry
    from skillquay.dialects.templates import Template
    from skillquay.host.dialects import Spoken
    from skillquay.host.host import SkillHost
    from skillquay.host.servers import SkillServer

__all__ = ["run"]

_MOST_VALUES: Final = 10
_MEANING: Final = {
    Dialect.CURRENT: "Each skill comes with a list of its files, their sizes and their digests, or is generated.",
    Dialect.JUNE: "Each skill comes with the digest of its SKILL.md, or with that of an archive of its files, or both.",
    Dialect.MAY: "Each skill comes with a name, a description and an address, and no digest.",
    Dialect.PRIMITIVE: "Each skill is known by its name; its instructions and files come without digests.",
    Dialect.FASTMCP: "Beside each SKILL.md there is a list of the skill's files, their sizes and their digests.",
    Dialect.BARE: "There are SKILL.md files among its resources, and nothing is said of them.",
}
_Templates: TypeAlias = "list[tuple[Template, dict[str, list[str]]]]"


def run(place: Place, label: str) -> int:
    """Explain one server; 1 when no skills were found on it."""
    return run_host(place, partial(_explain, place=place, label=label), needs_state=False)


async def _explain(host: SkillHost, *, place: Place, label: str) -> int:
    server = host.server_named(label)
    spoken = server.dialects.spoken
    entries = _entries(host, server)
    with waiting("Asking for templates"):
        templates = await _templates(host, label)
    problems = [visible(problem.message) for problem in server.problems]
    if place.as_json:
        assurances = Counter(entry.assurance for entry in entries)
        document = {
            "server": server.label.label,
            "dialect": None if spoken.dialect is None else spoken.dialect.name.lower(),
            "reasons": list(spoken.reasons),
            "skills": {each.name.lower(): assurances[each] for each in Assurance if each in assurances},
            "templates": [
                {"url": each.url, "description": each.description, "values": values} for each, values in templates
            ],
            "problems": problems,
        }
        write_json(document)
    else:
        _show(Screen(), server, spoken, entries, templates)
        for problem in problems:
            Screen().hanging(f"To know: {problem}", 9)
    return 0 if spoken.dialect is not None else 1


def _show(
    screen: Screen, server: SkillServer, spoken: Spoken, entries: list[SkillEntry], templates: _Templates
) -> None:
    if spoken.dialect is None:
        screen.line((f'No skills were found on the server "{server.label}".', "bold"))
    else:
        screen.line((f'The server "{server.label}" speaks: {spoken.dialect}.', "bold"))
        screen.line(_MEANING[spoken.dialect])
    screen.line("How that was found out:")
    for reason in spoken.reasons or ("It could not be asked.",):
        screen.hanging(f"  - {visible(reason)}", 4)
    if spoken.unsearched:
        screen.hanging('  To allow it, put "scanForSkills": true into its entry in .mcp.json.', 2)
    if entries:
        screen.line("What it can prove:")
        kinds = Counter((entry.assurance, is_packed(entry)) for entry in entries)
        for assurance in Assurance:
            for packed in (False, True):
                if count := kinds[assurance, packed]:
                    proves = _proves(assurance, count, packed=packed)
                    screen.hanging(f"  - {plural(count, 'skill')}: {assurance}. {proves}", 4)
    if templates:
        screen.line("Templates, for people to browse by:")
        for template, values in templates:
            screen.hanging(f"  - {shorten(template.url, 200)}  {shorten(template.description, 200)}", 4)
            for variable, proposed in values.items():
                more = ", …" if len(proposed) > _MOST_VALUES else ""
                shown = ", ".join(shorten(value) for value in proposed[:_MOST_VALUES])
                screen.hanging(f"      {variable}: {shown}{more}", 8)
        screen.hanging(f'  See what is at an address: "skillquay show {server.label}:ADDRESS".', 2)


def _proves(assurance: Assurance, count: int, *, packed: bool) -> str:
    if assurance is Assurance.WHOLE:
        return f"An approval is kept until {'the archive' if packed else 'a file'} changes."
    if assurance is Assurance.SKILL_MD:
        return f"{'Its' if count == 1 else 'Their'} other files are read as they are, so you are asked each time."
    return "You are asked each time."


def _entries(host: SkillHost, server: SkillServer) -> list[SkillEntry]:
    return [
        skill.entry
        for skill in host.skills
        if skill.entry is not None and isinstance(skill.identity, SkillId) and skill.identity.server == server.label
    ]


async def _templates(host: SkillHost, label: str) -> _Templates:
    """What there is to browse. A server that does not say is none that fails."""
    found: _Templates = []
    try:
        for template in await host.templates(label):
            values = {each: await host.complete_template(label, template, each) for each in template.variables}
            found.append((template, {each: proposed for each, proposed in values.items() if proposed}))
    except SkillquayError:
        return found
    return found
