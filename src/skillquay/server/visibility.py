"""Who may see which skill: what an operator's function says, and nothing where it slips."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from skillquay.core.catalog import Where
    from skillquay.core.entries import SkillEntry

__all__ = ["Visible", "ask_visible", "visible_to_both"]

Visible: TypeAlias = "Callable[[ServerRequestContext[Any, Any]], Where | Awaitable[Where]]"


async def ask_visible(visible: Visible, ctx: ServerRequestContext[Any, Any]) -> Where:
    """What says of each entry whether this asker may see it. An author's slip shows nothing, rather than everything."""
    decided = visible(ctx)
    where = await decided if isinstance(decided, Awaitable) else decided
    if not callable(where):
        raise TypeError(f"visible gave back {type(where).__name__}, not a function of an entry.")

    def sees(entry: SkillEntry) -> bool:
        answer: object = where(entry)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("The function that visible gave back is async. Decide in visible, which may be.")
        return bool(answer)

    return sees


def visible_to_both(one: Visible | None, other: Visible) -> Visible:
    """Show what both would show."""
    if one is None:
        return other

    async def visible(ctx: ServerRequestContext[Any, Any]) -> Where:
        first, second = await ask_visible(one, ctx), await ask_visible(other, ctx)
        return lambda entry: first(entry) and second(entry)

    return visible
