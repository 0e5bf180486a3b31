"""`skillquay approvals` and `audit`: what was answered, and what happened since; no server is asked for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from skillquay.cli.hosting import Place, exact_time, run_host, short_time, write_json
from skillquay.cli.output import Screen
from skillquay.core.hidden import shorten, visible

if TYPE_CHECKING:
    from skillquay.host.host import SkillHost
    from skillquay.host.store import Event, Kept

__all__ = ["run_approvals", "run_audit"]

_ANSWERS = {"allow": ("approved", "green"), "deny": ("denied", "red")}


def run_approvals(place: Place) -> int:
    """Every answer that is kept, of all folders, standing or ended."""
    return run_host(place, partial(_approvals, place=place), ask_servers=False)


def run_audit(place: Place, name: str | None, *, limit: int) -> int:
    """The last events, the newest first."""
    return run_host(place, partial(_audit, place=place, name=name, limit=limit), ask_servers=False)


async def _approvals(host: SkillHost, *, place: Place) -> int:
    kept = await host.people.approvals()
    names = await host.people.names(each.approval.skill for each in kept)
    if place.as_json:
        write_json({"answers": [_kept_json(each, names[each.approval.skill]) for each in kept]})
    elif kept:
        Screen().rows((_kept_row(each, names[each.approval.skill]) for each in kept), indent=0)
    else:
        Screen().line("No answer is kept yet.")
    return 0


async def _audit(host: SkillHost, *, place: Place, name: str | None, limit: int) -> int:
    events = await host.people.audit(limit=limit, name=name)
    if place.as_json:
        write_json({"events": [_event_json(event) for event in events]})
    elif events:
        Screen().rows(map(_event_row, events), indent=0)
    else:
        Screen().line("Nothing has happened yet.")
    return 0


def _kept_row(kept: Kept, name: str) -> tuple[Text, ...]:
    word, style = _ANSWERS[kept.approval.answer]
    ended = "stands" if kept.ended is None else f"ended {short_time(kept.ended)}"
    server = kept.approval.skill.server
    return (
        Text(visible(name), "bold"),
        Text(kept.approval.grant.value),
        Text(word, style if kept.ended is None else "dim"),
        Text(short_time(kept.at)),
        Text(ended, "" if kept.ended is None else "dim"),
        Text(f"MCP server {visible(server.label)}, {visible(server.scope)}"),
    )


def _kept_json(kept: Kept, name: str) -> dict[str, object]:
    approval = kept.approval
    return {
        "name": name,
        "server": approval.skill.server.label,
        "configured_in": approval.skill.server.scope,
        "uri": str(approval.skill.uri),
        "grant": approval.grant.value,
        "answer": approval.answer.value,
        "answered": exact_time(kept.at),
        "ended": exact_time(kept.ended),
        "files": len(approval.pairs),
        "fingerprint": approval.fingerprint,
    }


def _event_row(event: Event) -> tuple[Text, ...]:
    subject = f"{event.server}: {event.uri}" if event.uri else event.server
    return (
        Text(short_time(event.at)),
        Text(visible(event.kind), "bold"),
        Text(shorten(subject, 200)),
        Text(shorten(event.detail, 400)),
    )


def _event_json(event: Event) -> dict[str, object]:
    return {
        "at": exact_time(event.at),
        "kind": event.kind,
        "server": event.server,
        "configured_in": event.scope,
        "uri": event.uri,
        "detail": event.detail,
    }
