"""Content that takes long to verify is verified while the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from skillquay.errors import DigestMismatchError
from skillquay.host.cache import ContentCache
from skillquay.host.client import SkillsClient
from skillquay.host.shelf import Shelf
from tests.core.builders import publish, skill_md
from tests.host.test_client import Answers, turns_during

if TYPE_CHECKING:
    from pathlib import Path

    from skillquay.host.configuration import Problem

pytestmark = pytest.mark.anyio

LONG = skill_md("refunds", "x: [" + "0," * 20_000 + "]")
LARGE = b"x" * 300_000


@pytest.mark.rule("B2")
@pytest.mark.rule("V2")
@pytest.mark.parametrize("dynamic", [False, True])
async def test_other_servers_are_served_while_a_long_skill_md_is_verified(tmp_path: Path, dynamic: bool) -> None:
    skill = publish({"SKILL.md": LONG}, dynamic=dynamic)
    client = SkillsClient(Answers({"contents": [{"text": LONG.decode()}]}))
    problems: list[Problem] = []
    async with anyio.create_task_group() as tasks:
        shelf = Shelf(ContentCache(str(tmp_path), report=problems.append), tasks=tasks)
        assert await turns_during(shelf.skill(client, skill.id(), skill.entry)) > 15
        assert (await shelf.skill(client, skill.id(), skill.entry)).body == "Refund politely.\n"
    assert problems == []


@pytest.mark.rule("V1")
async def test_a_large_file_is_verified_like_any_other(tmp_path: Path) -> None:
    skill = publish({"large.txt": LARGE})
    problems: list[Problem] = []
    async with anyio.create_task_group() as tasks:
        shelf = Shelf(ContentCache(str(tmp_path), report=problems.append), tasks=tasks)
        evil = SkillsClient(Answers({"contents": [{"text": "y" * len(LARGE)}]}))
        with pytest.raises(DigestMismatchError):
            await shelf.file(evil, skill.id(), skill.entry, skill.uri("large.txt"))
        client = SkillsClient(Answers({"contents": [{"text": LARGE.decode()}]}))
        assert (await shelf.file(client, skill.id(), skill.entry, skill.uri("large.txt"))).data == LARGE
    assert problems == []
