"""A host that is also hasty and brittle: it fails the cases that a host which only believes everything passes."""

from __future__ import annotations

import base64
import contextlib
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import httpx2 as httpx

from skillquay.core.entries import LIMITS
from skillquay.core.uris import SkillUri
from skillquay.testing import Ability, Outcome, Setup
from tests.testing.naive import Naive, NaiveDriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from mcp import Client

    from skillquay.testing import Shown

__all__ = ["WorseDriver"]


class WorseDriver:
    abilities = frozenset(Ability)

    @contextlib.asynccontextmanager
    async def start(self, setup: Setup) -> AsyncIterator[Worse]:
        async with NaiveDriver().start(setup) as naive:
            worse = Worse(setup, naive.clients)
            for server, client in naive.clients.items():
                for uri in re.findall(r"skill://\S+", client.instructions or ""):
                    await worse.load(server, uri)
            yield worse


class Worse(Naive):
    def __init__(self, setup: Setup, clients: Mapping[str, Client]) -> None:
        super().__init__(setup, clients)
        self.cache: dict[str, Outcome] = {}

    async def listing(self) -> Sequence[Shown]:
        shown = await super().listing()
        for server in self.clients:
            notices = (await self._post(server, "skills/list", {})).text.count("list_changed")
            for _ in range(min(notices, 60)):
                await self._post(server, "skills/list", {})
        if len(shown) > 1_000:
            raise OverflowError("that many")
        for each in shown:
            if each.server is not None and each.uri is not None:
                for uri in self._listed(each.uri):
                    SkillUri(uri)
                if len(self._listed(each.uri)) < 10:
                    await self.read_resource(each.server, each.uri)
        return shown

    async def load(self, server: str, uri: str) -> Outcome:
        outcome = await self.read_resource(server, uri)
        resources = self.entries.get(uri, {}).get("resources", [])
        if isinstance(resources, list) and LIMITS.problem(len(resources), sum(each["size"] for each in resources)):
            return Outcome(refused="That is too much.")
        return outcome

    async def read_file(self, server: str, uri: str, path: str) -> Outcome:
        return await self.read_resource(server, uri.removesuffix("SKILL.md") + quote(path, safe="/%:"))

    async def read_resource(self, server: str, uri: str) -> Outcome:
        place = unicodedata.normalize("NFC", unquote(uri)).casefold()
        if place not in self.cache:
            for _ in range(5):
                answer = (await self._post(server, "resources/read", {"uri": uri})).json()
                if "result" in answer:
                    break
            item = answer["result"]["contents"][0]
            data = base64.b64decode(item["blob"], validate=True) if "blob" in item else item["text"].encode()
            self.cache[place] = Outcome(text=data.decode(), data=data)
        return self.cache[place]

    async def _post(self, server: str, method: str, params: Mapping[str, str]) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with httpx.AsyncClient(follow_redirects=True, verify=False, trust_env=False) as http:
            return await http.post(self.setup.servers[server], json=message)
