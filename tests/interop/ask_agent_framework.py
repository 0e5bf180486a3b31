"""Have an agent of Microsoft's agent-framework use the skills of a server.

`python ask_agent_framework.py URL MODE CALLS`: MODE is how the client negotiates, `auto` or `legacy`. CALLS is a JSON
array of the tools that the model calls, each `[name, arguments]`: the model is scripted, all else is theirs. Prints as
JSON what the model was told of skills, what each call returned, and what was read from the server, in order. Run it
with the Python that has `agent-framework-core` and `mcp`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from agent_framework import (  # type: ignore[import-not-found]
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    MCPSkillsSource,
    Message,
    SkillsProvider,
    SkillsSourceContext,
)
from mcp import Client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_types import ReadResourceResult

READS: list[str] = []
FOUND: list[str] = []


class Scripted(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]
    """A model that calls the tools it was told to, one after the other, and then has nothing more to say."""

    def __init__(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        super().__init__()
        self.calls = list(calls)
        self.told = ""

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> ChatResponse[Any]:
        self.told = options.get("instructions") or ""
        if not self.calls:
            return ChatResponse(messages=[Message("assistant", ["Done."])])
        name, arguments = self.calls.pop(0)
        call = Content.from_function_call(f"call-{len(self.calls)}", name, arguments=arguments)
        return ChatResponse(messages=[Message("assistant", [call])])


class Recorded(Client):
    """The SDK's client, which remembers what was read."""

    async def read_resource(self, uri: str, **options: Any) -> ReadResourceResult:
        READS.append(uri)
        return await super().read_resource(uri, **options)


class Source(MCPSkillsSource):  # type: ignore[misc]
    """Their source, which remembers what it found."""

    async def get_skills(self, context: SkillsSourceContext) -> Any:
        skills = await super().get_skills(context)
        FOUND.extend(skill.frontmatter.name for skill in skills)
        return skills


async def main(url: str, mode: str, calls: str) -> None:
    model = Scripted(json.loads(calls))
    async with Recorded(url, mode=mode) as client:
        provider = SkillsProvider(
            Source(client), disable_load_skill_approval=True, disable_read_skill_resource_approval=True
        )
        answer = await Agent(model, context_providers=[provider]).run("Go.")
        version = client.protocol_version
    contents = [content for message in answer.messages for content in message.contents]
    seen = {
        "version": version,
        "told": model.told,
        "found": FOUND,
        "results": [content.result for content in contents if content.type == "function_result"],
        "reads": READS,
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
