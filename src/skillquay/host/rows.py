"""What is kept of an answer and of an event, and how it is written into a row and read back, checked whole (A1, N1).

Text goes in as JSON in plain ASCII: paths may hold what is not Unicode, events may hold anything, and not every
database takes that. A row that does not fit together when it is read is not an answer: a seal over its columns tells
when one of them changed by itself or by hand. It keeps out accidents; whoever can write the file can also write a seal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.core.drafts import Draft
from skillquay.core.entries import Manifest, parse_entry
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.uris import SkillUri
from skillquay.errors import SkillquayError, UriError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.entries import SkillEntry

__all__ = [
    "Event",
    "Kept",
    "hashed",
    "quoted",
    "read_answer",
    "read_event",
    "read_kept",
    "seal",
    "subject",
    "unquoted",
    "write_answer",
    "write_event",
]

_NOT_OURS: Final = (AttributeError, LookupError, RecursionError, SkillquayError, TypeError, ValueError)
_NOTHING: Final = MappingProxyType[str, object]({})
_EVENT_TEXTS: Final = ("kind", "server", "scope", "uri", "detail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An answer as it is kept; `entry` is what the person saw, None where that cannot be read any more.

    Fields of the entry that the specification does not know are not kept: the answer was not about them.
    """

    approval: Approval
    entry: SkillEntry | None
    at: float
    ended: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the audit. `server` and `scope` are the two parts of a `ServerLabel`.

    The store writes the kinds `allow`, `deny`, `revoke` (the person took it back), `changed` and `refused` (the content
    did), `unreadable` (the row cannot be read), `trust`, `distrust`, `disable` and `enable`; others are the caller's.
    """

    at: float
    kind: str
    server: str = ""
    scope: str = ""
    uri: str = ""
    detail: str = ""


def write_answer(approval: Approval, entry: SkillEntry, at: float) -> dict[str, object]:
    """The columns of an answer that stands."""
    skill = approval.skill
    columns = {
        "subject": subject(skill),
        "what": approval.grant.value,
        "server": skill.server.directory,
        "at": float(at),
        "ended": None,
        "answer": approval.answer.value,
        "shown": approval.shown,
        "scope": quoted(skill.server.scope),
        "label": quoted(skill.server.label),
        "uri": quoted(skill.uri),
        "pairs": json.dumps(approval.pairs),
    }
    return {**columns, "seal": seal(columns.values()), "entry": _write_entry(entry)}


def seal(columns: Iterable[Any]) -> str:
    """One value for all columns that an answer is read from, in their order; bytes in one of them never fit."""
    return sha256(json.dumps(list(columns), default=repr).encode()).hexdigest()


def read_answer(row: Iterable[Any]) -> Approval | None:
    """The answer in a row; None when it is spoiled.

    The columns: subject, what, server, at, ended, answer, shown, scope, label, uri, pairs, seal.
    """
    *sealed, sealed_as = row
    if seal(sealed) != sealed_as:
        return None
    about, what, directory, at, ended, answer, shown, scope, label, uri, pairs = sealed
    try:
        server = ServerLabel(label=json.loads(label), scope=json.loads(scope))
        skill = SkillId(server=server, uri=SkillUri(json.loads(uri)))
        files = tuple((file, digest) for file, digest in json.loads(pairs))
        approval = Approval(skill=skill, grant=Grant(what), answer=Answer(answer), pairs=files, shown=shown)
        is_ours = (subject(skill), server.directory) == (about, directory)
    except _NOT_OURS:
        return None
    texts = [shown, *(text for pair in files for text in pair)]
    is_whole = bool(files) and all(isinstance(text, str) for text in texts)
    is_timed = _is_time(at) and (ended is None or _is_time(ended))
    return approval if is_ours and is_whole and is_timed else None


def read_kept(row: Iterable[Any]) -> Kept | None:
    """The same with one more column, the entry. One that is not what the answer was about is no entry."""
    *columns, text = row
    approval = read_answer(columns)
    if approval is None:
        return None
    entry: SkillEntry | None
    try:
        entry = _read_entry(text)
    except _NOT_OURS:
        entry = None
    if entry and (entry.identity.key != approval.skill.key or not approval.covers(entry)):
        entry = None
    return Kept(approval=approval, entry=entry, at=columns[3], ended=columns[4])


def write_event(event: Event) -> dict[str, object]:
    """The columns of an event. One about a skill is found by the skill's identity, however its URI is spelled."""
    try:
        about = _subject(event.scope, event.server, SkillUri(event.uri))
    except UriError:
        about = ""
    texts = {name: quoted(getattr(event, name)) for name in _EVENT_TEXTS}
    return {"subject": about, "at": float(event.at), **texts}


def read_event(row: Iterable[Any]) -> Event:
    """The event in a row (at, kind, server, scope, uri, detail); what cannot be read of it is shown as it is."""
    at, *columns = row
    texts = [str(column) if (text := unquoted(column)) is None else text for column in columns]
    return Event(at=at if _is_time(at) else 0.0, **dict(zip(_EVENT_TEXTS, texts, strict=True)))


def subject(skill: SkillId) -> str:
    """One value for a skill's identity: the server as this host names it, and the URI however it is spelled (N1)."""
    return _subject(skill.server.scope, skill.server.label, skill.uri)


def hashed(text: str) -> str:
    """A key of a fixed length for a text of any."""
    return sha256(quoted(text).encode()).hexdigest()


def quoted(text: str) -> str:
    """Text as any database takes it."""
    return json.dumps(text)


def unquoted(text: object) -> str | None:
    """The text that was quoted; None if it is spoiled."""
    try:
        value = json.loads(str(text))
    except (RecursionError, ValueError):
        return None
    return value if isinstance(value, str) else None


def _subject(scope: str, label: str, uri: SkillUri) -> str:
    return sha256(json.dumps((scope, label, uri.key)).encode()).hexdigest()


def _write_entry(entry: SkillEntry) -> str:
    """The entry without the fields that nobody was asked about, and that nothing bounds."""
    known = replace(entry, extra=_NOTHING)
    if isinstance(entry.resources, Manifest):
        files = (file._replace(extra=_NOTHING) for file in entry.resources.files)
        known = replace(known, resources=Manifest(files))
    draft = {} if entry.draft is None else {"draft": entry.draft.to_json()}
    return json.dumps(known.to_json() | draft)


def _read_entry(text: Any) -> SkillEntry:
    data = json.loads(text)
    draft = data.pop("draft", None)
    return replace(parse_entry(data), draft=None if draft is None else Draft.from_json(draft))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value >= 0
