"""Keep what people answered, bound to content and identity, and an audit of it that only grows (A1-A3, A5, K4, N1, P6).

One row is the answer to one question: this grant for this skill of this server. It stands until the person takes it
back or the skill is seen with other content, and then stays as what a later question is compared with. A row that
cannot be read is no answer. All calls are synchronous, and any thread may make them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillquay.core.approvals import Approval, Approvals, Revocation
from skillquay.core.changes import compare
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.errors import StateError, VerificationError
from skillquay.host.database import open_database
from skillquay.host.rows import (
    Event,
    Kept,
    hashed,
    quoted,
    read_answer,
    read_event,
    read_kept,
    seal,
    subject,
    unquoted,
    write_answer,
    write_event,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from skillquay.core.approvals import Grant
    from skillquay.core.entries import SkillEntry
    from skillquay.core.uris import SkillUri
    from skillquay.host.database import Database, Transaction

__all__ = ["Event", "Kept", "Store"]

_log = logging.getLogger(__name__)

_TRUSTED: Final = "trusted"
_DISABLED: Final = "disabled"


class _Ending(NamedTuple):
    """A row that does not stand any longer, and why."""

    row: tuple[Any, ...]
    event: Event
    revocation: Revocation | None = None


class Store:
    """The answers of people, in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, where: str | os.PathLike[str]) -> Store:
        """The store at a path, `":memory:"` or a `postgresql://` URL. A new file is readable by its user alone."""
        return cls(open_database(where))

    def version(self) -> tuple[int, int] | None:
        """A value that changes whenever anything kept has changed; None where that cannot be told cheaply."""
        return self._database.version()

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    # Answers

    def approval(self, skill: SkillId, grant: Grant) -> Approval | None:
        """The standing answer to this question; None when there is none, it ended, or it cannot be read."""
        kept = self.last_answered(skill, grant)
        return kept.approval if kept and kept.ended is None else None

    def last_answered(self, skill: SkillId, grant: Grant) -> Kept | None:
        """The last answer to this question, standing or ended: what a change is measured against (A2)."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.execute(
                """SELECT subject, what, server, at, ended, answer, shown, scope, label, uri, pairs, seal, entry
                FROM skillquay_answers WHERE subject = :subject AND what = :what""",
                {"subject": subject(skill), "what": grant.value},
            )
        return next(iter(self._readable(rows)), None)

    def approvals(self, server: ServerLabel | None = None) -> list[Kept]:
        """All answers, ended ones too, of one server or of all."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.execute(
                """SELECT subject, what, server, at, ended, answer, shown, scope, label, uri, pairs, seal, entry
                FROM skillquay_answers"""
            )
        found = [kept for kept in self._readable(rows) if server in {None, kept.approval.skill.server}]
        return sorted(found, key=lambda kept: (kept.approval.skill, kept.approval.grant))

    def record(self, approval: Approval, entry: SkillEntry, *, at: float) -> None:
        """Keep this answer about this entry, in place of an earlier one to the same question (A1).

        It is durable when this returns. An answer about a dynamic skill, or about other content than the entry's, is
        refused (A3).
        """
        skill = approval.skill
        if Approval.of(skill, entry, grant=approval.grant, answer=approval.answer) != approval:
            raise VerificationError(f"The answer about {skill} is not about this entry.", uri=entry.uri, rule="A1")
        columns = write_answer(approval, entry, at)
        detail = f"{approval.grant} {approval.fingerprint}"
        with self._database.transaction(write=True) as transaction:
            transaction.execute(
                """INSERT INTO skillquay_answers
                  (subject, what, server, at, ended, answer, shown, scope, label, seal, uri, pairs, entry)
                VALUES
                  (:subject, :what, :server, :at, :ended, :answer, :shown, :scope, :label, :seal, :uri, :pairs, :entry)
                ON CONFLICT (subject, what) DO UPDATE SET server = excluded.server, at = excluded.at,
                  ended = excluded.ended, answer = excluded.answer, shown = excluded.shown, scope = excluded.scope,
                  label = excluded.label, seal = excluded.seal, uri = excluded.uri, pairs = excluded.pairs,
                  entry = excluded.entry""",
                columns,
            )
            _note(transaction, _event(skill, at, approval.answer.value, detail))

    def revoke(self, skill: SkillId, *, at: float) -> int:
        """End all answers about this skill, because the user takes them back; how many there were."""
        with self._database.transaction(write=True) as transaction:
            standing = transaction.execute(
                """SELECT subject, what, server, at, ended, answer, shown, scope, label, uri, pairs, seal
                FROM skillquay_answers WHERE subject = :subject AND ended IS NULL""",
                {"subject": subject(skill)},
            )
            for row in standing:
                _end(transaction, _Ending(row, _event(skill, at, "revoke", str(row[1]))))
        return len(standing)

    def observe(
        self,
        server: ServerLabel,
        entries: Iterable[SkillEntry],
        *,
        refused: Iterable[SkillUri] = (),
        at: float,
    ) -> list[Revocation]:
        """End every answer that is about other content than what this server published now, for good (A2).

        `refused` are the URIs of entries that are not valid: what stood for such a skill ends too, also where a valid
        entry has the same URI. Where nothing ends, nothing is written and nobody waits.
        """
        seen, invalid = list(entries), list(refused)
        with self._database.transaction(write=False) as transaction:
            if not _endings(transaction, server, seen, invalid, at):
                return []
        with self._database.transaction(write=True) as transaction:
            endings = _endings(transaction, server, seen, invalid, at)  # someone may have answered meanwhile
            for ending in endings:
                _end(transaction, ending)
        return [ending.revocation for ending in endings if ending.revocation]

    def _readable(self, rows: list[tuple[Any, ...]]) -> list[Kept]:
        found = [kept for row in rows if (kept := read_kept(row))]
        if len(found) < len(rows):
            _log.warning(
                "Of the answers in %s, %d cannot be read and do not count; their skills are asked about again.",
                self._database.shown,
                len(rows) - len(found),
            )
        return found

    # Folders the user trusts, and what the user disabled

    def trust(self, folder: str, *, at: float) -> None:
        """Keep that the user trusts this folder, an absolute path without links (P6)."""
        self._mark(_TRUSTED, folder, Event(at=at, kind="trust", detail=folder))

    def distrust(self, folder: str, *, at: float) -> None:
        """Keep that the user does not trust this folder any longer."""
        self._unmark(_TRUSTED, folder, Event(at=at, kind="distrust", detail=folder))

    def is_trusted(self, folder: str) -> bool:
        """True when exactly this folder was trusted; one inside or around it says nothing."""
        with self._database.transaction(write=False) as transaction:
            return _is_marked(transaction, _TRUSTED, folder)

    def trusted(self) -> list[str]:
        """All trusted folders."""
        return sorted(self._marked(_TRUSTED))

    def disable(self, what: str, *, at: float, about: SkillId | ServerLabel | str | None = None) -> None:
        """Keep that the user disabled this; `what` is the caller's name for it, `about` is for the audit (A5)."""
        self._mark(_DISABLED, what, _switch_event(what if about is None else about, at, "disable"))

    def enable(self, what: str, *, at: float, about: SkillId | ServerLabel | str | None = None) -> None:
        """Forget that the user disabled this."""
        self._unmark(_DISABLED, what, _switch_event(what if about is None else about, at, "enable"))

    def disabled(self) -> frozenset[str]:
        """All that is disabled. Where part of it cannot be read, nothing may count as enabled: a `StateError`."""
        return frozenset(self._marked(_DISABLED))

    def _mark(self, kind: str, about: str, event: Event) -> None:
        with self._database.transaction(write=True) as transaction:
            if not _is_marked(transaction, kind, about):
                transaction.execute(
                    """INSERT INTO skillquay_marks (kind, subject, at, about) VALUES (:kind, :subject, :at, :about)
                    ON CONFLICT (kind, subject) DO UPDATE SET at = excluded.at, about = excluded.about""",
                    {"kind": kind, "subject": hashed(about), "at": float(event.at), "about": quoted(about)},
                )
                _note(transaction, event)

    def _unmark(self, kind: str, about: str, event: Event) -> None:
        with self._database.transaction(write=True) as transaction:
            where = {"kind": kind, "subject": hashed(about)}
            if transaction.execute("SELECT 1 FROM skillquay_marks WHERE kind = :kind AND subject = :subject", where):
                transaction.execute("DELETE FROM skillquay_marks WHERE kind = :kind AND subject = :subject", where)
                _note(transaction, event)

    def _marked(self, kind: str) -> list[str]:
        with self._database.transaction(write=False) as transaction:
            rows = transaction.execute("SELECT subject, about FROM skillquay_marks WHERE kind = :kind", {"kind": kind})
        found: list[str] = []
        for key, text in rows:
            about = unquoted(text)
            if about is None or hashed(about) != key:
                raise StateError(
                    f"Part of what is {kind} cannot be read any more in {self._database.shown}. Restore a copy of it, "
                    "or move it away to begin anew: every skill is then asked about again."
                )
            found.append(about)
        return found

    # The audit

    def note(self, event: Event) -> None:
        """Add a line to the audit."""
        with self._database.transaction(write=True) as transaction:
            _note(transaction, event)

    def audit(self, *, limit: int = 100, skill: SkillId | None = None) -> list[Event]:
        """The last lines of the audit, of one skill or of all, the newest first."""
        with self._database.transaction(write=False) as transaction:
            if skill is None:
                rows = transaction.execute(
                    """SELECT at, kind, server, scope, uri, detail FROM skillquay_audit
                    ORDER BY id DESC LIMIT :limit""",
                    {"limit": limit},
                )
            else:
                rows = transaction.execute(
                    """SELECT at, kind, server, scope, uri, detail FROM skillquay_audit
                    WHERE subject = :subject ORDER BY id DESC LIMIT :limit""",
                    {"subject": subject(skill), "limit": limit},
                )
        return [read_event(row) for row in rows]


def _endings(
    transaction: Transaction,
    server: ServerLabel,
    entries: list[SkillEntry],
    refused: list[SkillUri],
    at: float,
) -> list[_Ending]:
    """What does not stand any longer, of all that stands for this server."""
    rows = transaction.execute(
        """SELECT subject, what, server, at, ended, answer, shown, scope, label, uri, pairs, seal
        FROM skillquay_answers WHERE server = :server AND ended IS NULL""",
        {"server": server.directory},
    )
    endings: list[_Ending] = []
    standing: dict[tuple[str, ...], Approvals] = {}
    skills: dict[tuple[str, ...], SkillId] = {}
    row_of: dict[tuple[SkillId, Grant], tuple[Any, ...]] = {}
    for row in rows:
        approval = read_answer(row)
        if approval is None or approval.skill.server != server:
            event = Event(
                at=at, kind="unreadable", server=server.label, scope=server.scope, detail=f"{row[1]} {row[0]}"
            )
            endings.append(_Ending(row, event))
        else:
            key = approval.skill.key
            skills[key] = approval.skill
            row_of[approval.skill, approval.grant] = row
            standing[key] = standing.get(key, Approvals()).record(approval)
    ended: list[tuple[str, Revocation]] = []
    for uri in refused:
        gone = standing.pop(uri.key, Approvals()).standing.values()
        ended += [("refused", Revocation(approval=each, change=compare(each.pairs, ()))) for each in gone]
    for entry in entries:
        if (key := entry.identity.key) in standing:
            standing[key], revocations = standing[key].observe(skills[key], entry)
            ended += [("changed", revocation) for revocation in revocations]
    for kind, revocation in ended:
        row = row_of[revocation.approval.skill, revocation.approval.grant]
        endings.append(_Ending(row, _ending_event(revocation, kind, at), revocation))
    return endings


def _ending_event(revocation: Revocation, kind: str, at: float) -> Event:
    approval, change = revocation.approval, revocation.change
    moved = [f"{len(change.added)} added, {len(change.removed)} removed, {len(change.rewritten)} rewritten"]
    moved += ["another frontmatter"] * change.frontmatter_changed + ["became dynamic"] * change.became_dynamic
    return _event(approval.skill, at, kind, f"{approval.grant} {approval.fingerprint}: {', '.join(moved)}")


def _end(transaction: Transaction, ending: _Ending) -> None:
    about, what, server, at, _, *others, _ = ending.row
    ended = float(ending.event.at)
    # A row that was spoiled stays so: it gets no seal that fits.
    sealed_as = seal((about, what, server, at, ended, *others)) if read_answer(ending.row) else ""
    transaction.execute(
        "UPDATE skillquay_answers SET ended = :ended, seal = :seal WHERE subject = :subject AND what = :what",
        {"ended": ended, "seal": sealed_as, "subject": about, "what": what},
    )
    _note(transaction, ending.event)


def _event(skill: SkillId, at: float, kind: str, detail: str) -> Event:
    server = skill.server
    return Event(at=at, kind=kind, server=server.label, scope=server.scope, uri=str(skill.uri), detail=detail)


def _switch_event(about: SkillId | ServerLabel | str, at: float, kind: str) -> Event:
    if isinstance(about, SkillId):
        return _event(about, at, kind, "")
    if isinstance(about, ServerLabel):
        return Event(at=at, kind=kind, server=about.label, scope=about.scope, detail="the whole server")
    return Event(at=at, kind=kind, detail=about)


def _note(transaction: Transaction, event: Event) -> None:
    transaction.execute(
        """INSERT INTO skillquay_audit (subject, at, kind, server, scope, uri, detail)
        VALUES (:subject, :at, :kind, :server, :scope, :uri, :detail)""",
        write_event(event),
    )


def _is_marked(transaction: Transaction, kind: str, about: str) -> bool:
    rows = transaction.execute(
        "SELECT about FROM skillquay_marks WHERE kind = :kind AND subject = :subject",
        {"kind": kind, "subject": hashed(about)},
    )
    return rows == [(quoted(about),)]
