"""Who answers: a person, a program, or rules a person set down beforehand (A, O5)."""

from __future__ import annotations

import inspect as inspection
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from skillquay.core.entries import DYNAMIC
from skillquay.core.questions import About, Question, Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Approver", "CallbackApprover", "Inspect", "NobodyToAsk", "PolicyApprover"]

Inspect: TypeAlias = Callable[[str], Awaitable[str]]
"""Fetch one file of the skill in question for a person to read; it opens no window."""


class Approver(ABC):
    """Answers questions. What is not answered is refused, and asked again next time."""

    @abstractmethod
    async def ask(self, question: Question, inspect: Inspect) -> Reply:
        """Answer one question; `inspect` fetches a file to look at, by its path in the skill."""

    async def ask_all(self, questions: Sequence[Question], inspect: Callable[[Question], Inspect]) -> list[Reply]:
        """Answer the questions about a server's whole list; one by one unless there is a better way."""
        return [await self.ask(question, inspect(question)) for question in questions]


class NobodyToAsk(Approver):
    """Nobody is there: nothing is approved."""

    async def ask(self, question: Question, inspect: Inspect) -> Reply:  # noqa: ARG002
        """No answer."""
        return Reply.LATER


class CallbackApprover(Approver):
    """Asks the embedding program: a function, async or not, from a question to a reply."""

    def __init__(self, callback: Callable[[Question], Reply | Awaitable[Reply]]) -> None:
        self._callback = callback

    async def ask(self, question: Question, inspect: Inspect) -> Reply:  # noqa: ARG002
        """What the program says. Anything but a reply is no answer."""
        reply = self._callback(question)
        if inspection.isawaitable(reply):
            reply = await reply
        return reply if isinstance(reply, Reply) else Reply.LATER


class PolicyApprover(Approver):
    """Rules instead of a person, for loading only: running code, tools and reads elsewhere go to `otherwise`.

    `allow` and `deny` are patterns such as `acme:*`, `acme:billing/refunds` or `acme:skill://billing/*`: the label of a
    server, a colon, and the skill's path or URI with `*` for any text. What is denied is denied, whatever allows it.
    Labels are those of all servers of the host, so that a folder whose `.mcp.json` the user trusts can use any of them.
    `trust` names servers whose skills are approved as they are first seen; one that changes is asked about again.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        trust: Iterable[str] = (),
        dynamic: bool = False,
        otherwise: Approver | None = None,
    ) -> None:
        self._allow, self._deny, self._trust = tuple(allow), tuple(deny), frozenset(trust)
        self._dynamic = dynamic
        self._otherwise = otherwise or NobodyToAsk()

    async def ask(self, question: Question, inspect: Inspect) -> Reply:
        """Deny, decline what is generated, allow, trust, or pass it on, in this order."""
        if question.about is not About.LOAD:
            return await self._otherwise.ask(question, inspect)
        names = _names(question)
        if _matches(self._deny, names):
            return Reply.DENY
        if question.entry.resources == DYNAMIC and not self._dynamic:
            return Reply.DENY
        if _matches(self._allow, names):
            return Reply.KEEP if question.can_be_kept else Reply.ONCE
        if question.skill.server.label in self._trust and question.change is None and question.can_be_kept:
            return Reply.KEEP
        return await self._otherwise.ask(question, inspect)


def _names(question: Question) -> tuple[str, ...]:
    label, uri = question.skill.server.label, question.entry.uri
    path = "/".join(uri.root.segments)
    return (f"{label}:{path}", f"{label}:{uri}")


def _matches(patterns: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
