"""Who answers: a person, a program, or rules a person set down beforehand (A, O5)."""

from __future__ import annotations

import inspect as inspection
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from anyio import to_thread

from skillquay.core.questions import About, Question, Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillquay.core.uris import SkillUri

__all__ = ["Approver", "CallbackApprover", "Inspect", "NobodyToAsk", "PolicyApprover"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")

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
    """Asks the embedding program: a function from a question to a reply.

    An async one may take a second argument, which fetches a file of the skill to show: `await inspect("SKILL.md")`. A
    plain one is called in a thread, since it may wait for somebody.
    """

    def __init__(self, callback: Callable[..., Reply | Awaitable[Reply]]) -> None:
        self._callback = callback
        self._takes_inspect = len(inspection.signature(callback).parameters) > 1

    async def ask(self, question: Question, inspect: Inspect) -> Reply:
        """What the program says. Anything but a reply is no answer."""
        arguments = (question, inspect) if self._takes_inspect else (question,)
        if inspection.iscoroutinefunction(self._callback):
            reply = await self._callback(*arguments)
        else:
            reply = await to_thread.run_sync(self._callback, *arguments)
            if inspection.isawaitable(reply):
                reply = await reply
        return reply if isinstance(reply, Reply) else Reply.LATER


class PolicyApprover(Approver):
    """Rules instead of a person, for loading only: running code, tools and reads elsewhere go to `otherwise`.

    `allow` and `deny` are patterns such as `acme:*`, `acme:billing/refunds` or `acme:skill://billing/*`: the label of a
    server, a colon, and the skill's path or URI with `*` for any text. A path means `skill:` URIs, and `*` for a label
    means any. However a server spells its URIs, they are compared decoded. What is denied is denied, whatever allows
    it, and a pattern that denies means all that it could mean: a path under any scheme, a label by `*` too.
    `trust` names servers whose skills are approved as they are first seen; one that changes is asked about again.

    Labels are those of all servers of the host, with those that the `.mcp.json` of a trusted folder chose.
    With a `scope`, the rules hold only for servers that are configured there, and all others go to `otherwise`: give
    the real path of the folder or the file, or `given in code` for servers given to the host by URL or command, and
    `in this process` for server objects.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        trust: Iterable[str] = (),
        dynamic: bool = False,
        scope: str | None = None,
        otherwise: Approver | None = None,
    ) -> None:
        self._allow, self._deny, self._trust = tuple(allow), tuple(deny), frozenset(trust)
        self._dynamic = dynamic
        self._scope = scope
        self._otherwise = otherwise or NobodyToAsk()

    async def ask(self, question: Question, inspect: Inspect) -> Reply:
        """Deny, decline what is generated, allow, trust, or pass it on, in this order."""
        server, uri = question.skill.server, question.entry.uri
        if question.about is not About.LOAD or not _is_within(server.scope, self._scope):
            return await self._otherwise.ask(question, inspect)
        if any(_denies(pattern, server.label, uri) for pattern in self._deny):
            return Reply.DENY
        if question.entry.pairs is None and not self._dynamic:
            return Reply.DENY
        if any(_allows(pattern, server.label, uri) for pattern in self._allow):
            return Reply.KEEP if question.can_be_kept else Reply.ONCE
        if server.label in self._trust and question.change is None and question.can_be_kept:
            return Reply.KEEP
        return await self._otherwise.ask(question, inspect)


def _is_within(scope: str, wanted: str | None) -> bool:
    """True for a place in the wanted one: a folder's name is not the beginning of another's."""
    if wanted is None or scope == wanted:
        return True
    base = wanted.rstrip("/\\:")
    return bool(wanted) and scope.startswith((f"{base}/", f"{base}\\", f"{base}:"))


def _allows(pattern: str, label: str, uri: SkillUri) -> bool:
    named, _, rest = pattern.partition(":")
    if named not in {"*", label}:
        return False
    if rest == "*" or pattern == "*":
        return True
    if "://" in rest:
        return fnmatchcase(_decoded(uri), _decoded_pattern(rest))
    return uri.scheme == "skill" and fnmatchcase(_path(uri), _decoded_pattern(rest))


def _denies(pattern: str, label: str, uri: SkillUri) -> bool:
    if _allows(pattern, label, uri):
        return True
    decoded, begins = _decoded_pattern(pattern), f"{label}:"
    for name in (_path(uri), _decoded(uri)):
        if fnmatchcase(begins + name, decoded):
            return True
        if pattern.startswith(begins) and fnmatchcase(name, _decoded_pattern(pattern.removeprefix(begins))):
            return True
    return False


def _path(uri: SkillUri) -> str:
    return "/".join(uri.root.segments)


def _decoded(uri: SkillUri) -> str:
    """One text for all spellings of a URI, and for no other URI: no segment has a slash in it."""
    return f"{uri.scheme}://{'/'.join(uri.segments)}"


def _decoded_pattern(pattern: str) -> str:
    """The pattern in the same form. What was written with a percent sign stands for itself."""
    lower = _SCHEME.sub(lambda scheme: scheme[0].lower(), pattern)
    return _ENCODED.sub(lambda encoded: escape(unquote(encoded[0])), lower)
