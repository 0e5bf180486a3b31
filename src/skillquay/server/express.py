"""Answer plain requests of the current revision from bytes that are written already, without the SDK's machinery.

Only what is certain to succeed is answered here: a well-formed POST that the SDK's own checks accept, for something
that is served. Everything else (older revisions, streams, errors, anything odd) goes on to the SDK, untouched. What is
answered here is, as JSON, what the SDK would have sent; a test compares the two.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, find_duplicated_routing_header
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from skillquay.core.catalog import find_file
from skillquay.core.uris import SkillUri
from skillquay.errors import CursorError, UriError
from skillquay.server.answers import read_result
from skillquay.wire.index_json import INDEX_URI

try:
    from orjson import loads as _read_json
except ImportError:
    _read_json = json.loads  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillquay.core.catalog import Catalog
    from skillquay.server.publisher import Publisher

__all__ = ["Express"]

_LARGEST_REQUEST: Final = 1 << 16
_LARGEST_KEPT: Final = 1 << 15  # bytes of an answer that is worth keeping
_MOST_KEPT: Final = 4 << 20  # bytes of all of them
_VERSION: Final = b"mcp-protocol-version"
_VERSIONS: Final = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
_MEMBERS: Final = {"jsonrpc", "id", "method", "params"}


class Express:
    """An ASGI application in front of the SDK's, for a server on which everybody sees everything."""

    def __init__(self, app: ASGIApp, publisher: Publisher, server: Server[Any]) -> None:
        self._app = app
        self._publisher = publisher
        hints = {**publisher.hints, "_meta": {SERVER_INFO_META_KEY: server.server_info_stamp}}
        self._tail = b"," + _json(hints)[1:]
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_size = 0
        self._kept_of: Catalog | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once, or pass on what was received."""
        if scope["type"] != "http" or scope["method"] != "POST" or not _is_modern(scope):
            await self._app(scope, receive, send)
            return
        received: list[Message] = []
        body, is_whole = b"", False
        while not is_whole and len(body) <= _LARGEST_REQUEST:
            message = await receive()
            received.append(message)
            if message["type"] != "http.request":
                break
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        answer = self._answer(scope, body) if is_whole else None
        if answer is not None:
            length = str(sum(map(len, answer))).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", length)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for place, piece in enumerate(answer, 1):
                await send({"type": "http.response.body", "body": piece, "more_body": place < len(answer)})
            return
        received.reverse()

        async def replay() -> Message:
            return received.pop() if received else await receive()

        await self._app(scope, replay, send)

    def _answer(self, scope: Scope, body: bytes) -> list[bytes] | None:
        """The answer, in pieces that are sent one after the other."""
        try:
            decoded = _read_json(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(decoded, dict) or decoded.keys() != _MEMBERS or decoded["jsonrpc"] != "2.0":
            return None
        number, params = decoded["id"], decoded["params"]
        if type(number) not in {int, str} or not isinstance(params, dict) or not _is_acceptable(scope, decoded):
            return None
        if type(params["_meta"].get("progressToken", 0)) not in {int, str}:
            return None
        catalog = self._publisher.live.catalog if self._publisher.is_ready else None
        if catalog is None:
            return None
        head = b'{"jsonrpc":"2.0","id":%b,"result":' % json.dumps(number).encode()
        if decoded["method"] == "resources/read" and params.get("uri") == INDEX_URI:
            index = self._publisher.index_at_hand(catalog)
            return None if index is None else [head + _INDEX_HEAD, *index, b'"}]%b}' % self._tail]
        result = self._result(catalog, decoded["method"], params)
        return None if result is None else [b"%b%b}" % (head, result)]

    def _result(self, catalog: Catalog, method: object, params: Mapping[str, Any]) -> bytes | None:
        match method, params:
            case "skills/list", {"cursor": str() as cursor}:
                return self._page(catalog, cursor)
            case "skills/list", _ if "cursor" not in params:
                return self._page(catalog, None)
            case "skills/get" | "resources/read", {"uri": str() as uri}:
                return self._of_uri(catalog, str(method), uri)
        return None

    def _of_uri(self, catalog: Catalog, method: str, uri: str) -> bytes | None:
        """The answer about one URI. Those that are asked for often are kept, for as long as the catalog is the same."""
        if catalog is not self._kept_of:
            self._kept.clear()
            self._kept_size, self._kept_of = 0, catalog
        key = f"{method} {uri}"
        if (result := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return result
        try:
            place = SkillUri(uri)
        except UriError:
            return None
        result = self._skill(catalog, place) if method == "skills/get" else self._file(catalog, place)
        if result is not None and len(result) <= _LARGEST_KEPT:
            self._kept[key] = result
            self._kept_size += len(result)
            while self._kept_size > _MOST_KEPT:
                self._kept_size -= len(self._kept.popitem(last=False)[1])
        return result

    def _skill(self, catalog: Catalog, uri: SkillUri) -> bytes | None:
        listed = catalog.skill(uri)
        return None if listed is None else b'{"resultType":"complete","skill":%b%b' % (listed.text, self._tail)

    def _file(self, catalog: Catalog, uri: SkillUri) -> bytes | None:
        record = find_file(catalog.around(uri), uri)
        data = None if record is None else self._publisher.read_at_hand(record)
        if data is None:
            return None
        return b'{"resultType":"complete",%b%b' % (_json(read_result(uri, uri.name, data))[1:-1], self._tail)

    def _page(self, catalog: Catalog, cursor: str | None) -> bytes | None:
        size = self._publisher.page_size
        try:
            page = catalog.page(cursor, size=size.entries, max_bytes=size.bytes)
        except CursorError:
            return None
        skills = b",".join([listed.text for listed in page.items])
        more = b"" if page.next_cursor is None else b',"nextCursor":' + _json(page.next_cursor)
        return b'{"resultType":"complete","skills":[%b]%b%b' % (skills, more, self._tail)


def _is_modern(scope: Scope) -> bool:
    return any(name == _VERSION and value in _VERSIONS for name, value in scope["headers"])


def _is_acceptable(scope: Scope, decoded: dict[str, Any]) -> bool:
    """What the SDK checks of a request before it looks at the method, by the SDK's own functions."""
    request = Request(scope)
    has_json, _ = check_accept_headers(request)
    if not has_json or not request.headers.get("content-type", "").lower().startswith("application/json"):
        return False
    if find_duplicated_routing_header(request.headers.items()) is not None:
        return False
    return isinstance(classify_inbound_request(decoded, headers=dict(request.headers)), InboundModernRoute)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_INDEX_HEAD: Final = b'{"resultType":"complete",%b' % _json(read_result(INDEX_URI, INDEX_URI.name, b""))[1:-4]
