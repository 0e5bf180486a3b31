"""SEP-2076, skills as a primitive of the protocol: the names and parameters of its methods (I7)."""

from __future__ import annotations

from typing import Any, Final

from mcp_types import Notification, NotificationParams, PaginatedRequestParams, RequestParams

__all__ = [
    "CAPABILITY",
    "LIST_CHANGED",
    "LIST_CHANGED_FILTER",
    "GetNamedSkillParams",
    "ListNamedSkillsParams",
    "SkillListChanged",
]

CAPABILITY: Final = "skills"
LIST_CHANGED: Final = "notifications/skills/list_changed"
LIST_CHANGED_FILTER: Final = "skillsListChanged"  # ours: the proposal is older than `subscriptions/listen`


class ListNamedSkillsParams(PaginatedRequestParams):
    """`skills/list`."""


class GetNamedSkillParams(RequestParams):
    """`skills/get`. As for prompts, the value of an argument is text."""

    name: str
    arguments: dict[str, str] | None = None


class SkillListChanged(Notification[NotificationParams, Any]):
    """`notifications/skills/list_changed`."""

    method: str = LIST_CHANGED
