"""The parameters of the extension's methods (L, G, D)."""

from __future__ import annotations

from mcp_types import PaginatedRequestParams, RequestParams

__all__ = ["GetSkillParams", "ListSkillsParams", "ReadDirectoryParams"]


class ListSkillsParams(PaginatedRequestParams):
    """`skills/list`."""


class GetSkillParams(RequestParams):
    """`skills/get`."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """`resources/directory/read`."""

    uri: str
