"""A client of few words for the careful host: one POST for each request, with a cap and a deadline, in both eras."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import httpx2 as httpx

from skillquay.errors import BudgetError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Wire"]

MODERN, OLDER = "2026-07-28", "2025-11-25"
CAP = 100 * 1024 * 1024
CLIENT = {"name": "careful", "version": "1"}


class Wire:
    """One server. Whatever is wrong with it is an `UnavailableError` or a `BudgetError`."""

    def __init__(self, url: str, http: httpx.AsyncClient, deadline: float) -> None:
        self.url = url
        self.http = http
        self.deadline = deadline
        self.version: str | None = None
        self.capabilities: Mapping[str, Any] = {}
        self._id = 0

    @property
    def skills(self) -> Mapping[str, Any] | None:
        """The declaration of the extension."""
        extensions = self.capabilities.get("extensions")
        declared = extensions.get("io.modelcontextprotocol/skills") if isinstance(extensions, dict) else None
        return declared if isinstance(declared, dict) else None

    async def connect(self) -> None:
        if self.version is not None:
            return
        try:
            answer = await self._post("server/discover", {}, MODERN)
            version = MODERN
        except UnavailableError as error:
            if error.code is None:
                raise
            params = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": CLIENT}
            answer = await self._post("initialize", params, OLDER)
            version = OLDER
        capabilities = answer.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.version = version

    async def ask(self, method: str, params: Mapping[str, Any], *, cap: int = CAP) -> dict[str, Any]:
        await self.connect()
        assert self.version is not None
        answer = await self._post(method, params, self.version, cap)
        if answer.get("resultType", "complete") != "complete":
            raise UnavailableError(f"The answer to {method} is not complete.")
        return answer

    async def _post(self, method: str, params: Mapping[str, Any], version: str, cap: int = CAP) -> dict[str, Any]:
        self._id += 1
        number = self._id
        sent = dict(params)
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": version}
        if version == MODERN:
            sent["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": CLIENT,
            }
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": sent}
        received = bytearray()
        try:
            with anyio.fail_after(self.deadline):
                async with self.http.stream("POST", self.url, json=message, headers=headers) as response:
                    kind = response.headers.get("content-type", "")
                    async for piece in response.aiter_bytes():
                        received += piece
                        if len(received) > cap:
                            raise BudgetError(f"The answer to {method} has more than {cap:,} bytes.")
        except (httpx.HTTPError, TimeoutError) as error:
            raise UnavailableError(f"{method} failed: {type(error).__name__}") from None
        return _result(bytes(received), kind, number)


def _result(data: bytes, kind: str, number: int) -> dict[str, Any]:
    for text in _events(data) if kind.startswith("text/event-stream") else [data]:
        try:
            message = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise UnavailableError("The answer is not JSON.") from None
        if not isinstance(message, dict) or "method" in message:
            continue
        error = message.get("error")
        if isinstance(error, dict) and isinstance(error.get("code"), int):
            raise UnavailableError(str(error.get("message")), code=error["code"])
        result = message.get("result")
        if message.get("id") == number and isinstance(result, dict):
            return result
    raise UnavailableError("That is not an answer.")


def _events(data: bytes) -> Iterator[bytes]:
    for line in data.split(b"\n"):
        if line.startswith(b"data:"):
            yield line[5:]


def _refuse(constant: str) -> None:
    raise ValueError(constant)
