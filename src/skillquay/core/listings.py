"""A listing of entries: each accepted or refused alone, none that contradicts another believed (E5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillquay.core.entries import LIMITS, parse_entry
from skillquay.core.hidden import shorten
from skillquay.errors import EntryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillquay.core.entries import Limits, SkillEntry
    from skillquay.core.uris import SkillUri

__all__ = ["Refused", "parse_each", "parse_entries", "reconcile", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An entry that was not accepted, and why. `uri` is shown text, never a URI to use.

    `identities` are those the skill may have had, where a draft's entry tells so much: answers about them end (A2).
    """

    index: int
    uri: str
    reason: str
    rule: str
    field: str
    identities: tuple[SkillUri, ...] = ()


def parse_entries(raw: Sequence[object], *, limits: Limits = LIMITS) -> tuple[list[SkillEntry], list[Refused]]:
    """Accept or refuse each entry of a listing alone: one bad entry never loses the others (E5)."""
    return reconcile(parse_each(raw, limits=limits))


def parse_each(raw: Sequence[object], *, first: int = 0, limits: Limits = LIMITS) -> list[SkillEntry | Refused]:
    """Each entry of a page of a listing on its own; `first` is the place of the page in the listing."""
    parsed: list[SkillEntry | Refused] = []
    for index, item in enumerate(raw, first):
        try:
            parsed.append(parse_entry(item, limits=limits))
        except EntryError as error:
            uri = item.get("uri") if isinstance(item, Mapping) else None
            parsed.append(refusal(index, uri if isinstance(uri, str) else "(no uri)", error))
    return parsed


def reconcile(parsed: Sequence[SkillEntry | Refused]) -> tuple[list[SkillEntry], list[Refused]]:
    """The entries of a whole listing that stand beside each other.

    A skill that is listed twice counts once. Where entries contradict each other, none of them is believed; one URI for
    two skills is a contradiction, and so is one archive (I13).
    """
    accepted: dict[int, SkillEntry] = {}
    holders: dict[tuple[str, ...], int] = {}
    contradicted: set[tuple[str, ...]] = set()
    refused: list[Refused] = []
    for index, entry in enumerate(parsed):
        if isinstance(entry, Refused):
            refused.append(entry)
            continue
        keys = _keys(entry)
        others = {holders[key] for key in keys if key in holders}
        if not others:
            accepted[index] = entry
            holders |= dict.fromkeys(keys, index)
        elif contradicted.isdisjoint(keys) and all(accepted[other].says == entry.says for other in others):
            again = EntryError("this URI was listed before in the same listing.", field="uri", rule="E5")
            refused.append(refusal(index, entry.uri, again, (entry.identity,)))
        else:
            accepted[index] = entry
            for each in sorted({*others, index} & accepted.keys()):
                other = accepted.pop(each)
                identities = (other.identity, *other.other_identities)
                refused.append(refusal(each, other.uri, _contradiction(other), identities))
                contradicted |= _keys(other)
                holders |= dict.fromkeys(_keys(other), each)
    return list(accepted.values()), sorted(refused, key=lambda each: each.index)


def _keys(entry: SkillEntry) -> set[tuple[str, ...]]:
    """Where the skill is, and all that it could be told by: no other skill of the listing has any of it."""
    return {entry.uri.key} if entry.draft is None else {entry.uri.key, *(url.key for url in entry.draft.archive_urls)}


def _contradiction(entry: SkillEntry) -> EntryError:
    what = "this URI" if entry.identity is entry.uri else "this URI or its archive"
    return EntryError(f"{what} is listed more than once, with different content.", field="uri", rule="E5")


def refusal(index: int, uri: str, error: EntryError, identities: tuple[SkillUri, ...] = ()) -> Refused:
    """An entry that is refused, as it is told."""
    return Refused(
        index=index, uri=shorten(uri), reason=error.message, rule=error.rule, field=error.field, identities=identities
    )
