"""A host that believes everything: it shows that the cases can be failed. Nobody should ever copy from it."""

from __future__ import annotations

import base64
import contextlib
import posixpath
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import anyio
import mcp_types as types
from mcp import Client, MCPError
from pydantic import TypeAdapter

from skillquay.testing import Ability, Outcome, Setup, Shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

__all__ = ["NaiveDriver"]

ANY = TypeAdapter(dict[str, Any])


class NaiveDriver:
    abilities = frozenset(Ability)

    @contextlib.asynccontextmanager
    async def start(self, setup: Setup) -> AsyncIterator[Naive]:
        async with contextlib.AsyncExitStack() as stack:
            clients = {
                label: await stack.enter_async_context(Client(url, cache=None)) for label, url in setup.servers.items()
            }
            yield Naive(setup, clients)


class Naive:
    def __init__(self, setup: Setup, clients: Mapping[str, Client]) -> None:
        self.setup = setup
        self.clients = clients
        self.entries: dict[str, Any] = {}
        self.named: dict[str, tuple[str, str]] = {}

    async def _ask(self, server: str, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        request = types.Request[dict[str, Any], str](method=method, params=dict(params))
        answer: dict[str, Any] = await self.clients[server].session.send_request(request, ANY)  # type: ignore[type-var]
        return answer

    async def listing(self) -> Sequence[Shown]:
        own = [path.parent.name for path in self.setup.local_skills.glob("*/SKILL.md")]
        shown = [Shown(server=None, name=name, description="") for name in own]
        for server in self.clients:
            cursor: dict[str, object] = {}
            while True:
                page = await self._ask(server, "skills/list", cursor)
                for entry in page["skills"]:
                    matter = entry["frontmatter"]
                    self.entries[entry["uri"]] = entry
                    self.named[matter["name"]] = (server, entry["uri"])
                    shown.append(
                        Shown(server=server, name=matter["name"], uri=entry["uri"], description=matter["description"])
                    )
                if page.get("nextCursor") is None:
                    break
                cursor = {"cursor": page["nextCursor"]}
        return shown

    async def load(self, server: str, uri: str) -> Outcome:
        if uri not in self.entries:
            try:
                self.entries[uri] = (await self._ask(server, "skills/get", {"uri": uri}))["skill"]
            except MCPError as error:
                return Outcome(refused=str(error))
        outcome = await self.read_resource(server, uri)
        commands = re.findall("!`(.*?)`", outcome.text or "")
        for hooks in self.entries[uri]["frontmatter"].get("hooks", {}).values():
            commands += [each["command"] for hook in hooks for each in hook["hooks"]]
        for command in commands:
            await anyio.run_process(command, check=False)
        return outcome

    async def load_named(self, name: str) -> Outcome:
        if name in self.named:
            return await self.load(*self.named[name])
        return Outcome(text=(self.setup.local_skills / name / "SKILL.md").read_text(encoding="utf-8"))

    async def read_file(self, server: str, uri: str, path: str) -> Outcome:
        if path.startswith(("/", "file:")):
            return await self.read_resource(server, path)
        scheme, _, place = uri.removesuffix("SKILL.md").partition("://")
        if "%" in path or not path.isascii() or " " in path:
            path = next((each for each in self._listed(uri) if unquote(each).endswith(path)), path)
            return await self.read_resource(server, path if "://" in path else f"{scheme}://{place}{path}")
        return await self.read_resource(server, f"{scheme}://{posixpath.normpath(place + path)}")

    def _listed(self, uri: str) -> list[str]:
        resources = self.entries[uri]["resources"]
        return [each["uri"] for each in resources] if isinstance(resources, list) else []

    async def files(self, server: str, uri: str) -> Sequence[str]:
        root = uri.removesuffix("/SKILL.md")
        found: list[str] = []
        pending: list[dict[str, str]] = [{"uri": root}]
        while pending:
            params = pending.pop()
            try:
                page = await self._ask(server, "resources/directory/read", params)
            except MCPError:
                return [each.removeprefix(root + "/") for each in self._listed(uri)]
            if "nextCursor" in page:
                pending.append({**params, "cursor": page["nextCursor"]})
            for child in page["resources"]:
                if child["mimeType"] == "inode/directory":
                    pending.append({"uri": child["uri"]})
                else:
                    found.append(child["uri"].removeprefix(root + "/"))
        return found

    async def read_resource(self, server: str, uri: str) -> Outcome:
        parts = urlsplit(unquote(uri).strip().removeprefix("view-source:"))
        if parts.scheme in {"", "file"}:
            with contextlib.suppress(OSError, ValueError):
                return Outcome(text=await anyio.Path(parts.path).read_text(encoding="utf-8"))
        try:
            answer = await self._ask(server, "resources/read", {"uri": uri})
        except MCPError as error:
            return Outcome(refused=str(error))
        text = "".join(each.get("text", "") for each in answer["contents"])
        if "blob" in answer["contents"][0]:
            data = base64.b64decode(answer["contents"][0]["blob"])
            return Outcome(text=text or data.decode("utf-8", "ignore"), data=data)
        return Outcome(text=text, data=text.encode("utf-8", "replace"))

    async def may_execute(self, tool: str, arguments: Mapping[str, str]) -> bool:
        return True

    async def granted_tools(self, server: str, uri: str) -> str:
        return str(self.entries[uri]["frontmatter"].get("allowed-tools", ""))

    async def prompt(self) -> str:
        lines = [f"- {each.name}: {each.description}" for each in await self.listing()]
        return "\n".join(["<skills>", *lines, "</skills>"])
