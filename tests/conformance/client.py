"""The client that the official conformance suite judges: our host, used as its users would.

The suite appends the URL of its server to the command, and names the scenario and the protocol revision in the
environment.
"""

from __future__ import annotations

import os
import sys
import tempfile

import anyio

from skillquay import Question, Reply, SkillHost, SkillquayError
from skillquay.host.approver import CallbackApprover

MODERN = "2026-07-28"


async def use(url: str) -> int:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    version = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]

    def keep(question: Question) -> Reply:
        return Reply.KEEP if question.can_be_kept else Reply.ONCE

    with tempfile.TemporaryDirectory() as place:
        async with SkillHost(
            servers={"suite": url},
            approver=CallbackApprover(keep),
            state=os.path.join(place, "state.sqlite3"),
            cache=os.path.join(place, "cache"),
            user_skills=(),
            handshake="auto" if version == MODERN else "legacy",
        ) as host:
            (skill,) = host.skills
            if scenario == "sep-2640-client-no-prefetch":
                return 0
            refused = 0
            for attempt in (host.read_skill(skill.name), host.read_skill_file(skill.name, "references/FORMS.md")):
                try:
                    print(await attempt)
                except SkillquayError as error:
                    print(f"refused by {error.rule}: {error.message}", file=sys.stderr)
                    refused += 1
            return refused


if __name__ == "__main__":
    sys.exit(anyio.run(use, sys.argv[-1]))
