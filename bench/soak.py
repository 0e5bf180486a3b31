"""Files change under load: is every read what the entry that announced it said? `python -m bench.soak [SECONDS]`.

Thirty-two clients get an entry and read each of its files, over and over, while a writer rewrites, breaks, mends, adds
and removes files. A read that does not fit the entry must fit the entry that is served right after it: the skill was
swapped in between. Anything else is a mismatch.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from bench.generate import generate
from bench.load import request
from bench.serving import ours

CLIENTS = 32
SKILLS = 40


@dataclass(slots=True)
class Soaked:
    """What came of it."""

    reads: int = 0
    changes: int = 0
    swapped: int = 0
    mismatches: int = 0
    contents: set[tuple[str, str]] = field(default_factory=set)


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The result, or None for an error."""
        self._writer.write(request(method, params))
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = json.loads(await self._reader.readexactly(length))
        result: dict[str, Any] | None = answer.get("result")
        return result


def soak(seconds: float) -> Soaked:
    """Run it for so long."""
    soaked = Soaked()
    with tempfile.TemporaryDirectory() as directory:
        tree = os.path.join(directory, "skills")
        generate(tree, SKILLS)
        over = threading.Event()
        with ours(tree, cache=os.path.join(directory, "cache")) as server:
            writer = threading.Thread(target=_write, args=(tree, soaked, over))
            writer.start()
            try:
                asyncio.run(_read(server.port, soaked, time.monotonic() + seconds))
            finally:
                over.set()
                writer.join()
    return soaked


async def _read(port: int, soaked: Soaked, until: float) -> None:
    async with Client(port) as client:
        listing = await client.ask("skills/list", {})
    assert listing is not None
    uris = [skill["uri"] for skill in listing["skills"]]
    await asyncio.gather(*(_one_client(port, number, uris, soaked, until) for number in range(CLIENTS)))


async def _one_client(port: int, number: int, uris: list[str], soaked: Soaked, until: float) -> None:
    choose = random.Random(number)
    async with Client(port) as client:
        while time.monotonic() < until:
            uri = choose.choice(uris)
            records = await _records(client, uri)
            soaked.contents.update((records or {}).items())
            for place, digest in (records or {}).items():
                read = await _digest(client, place)
                soaked.reads += 1
                if read == digest:
                    continue
                if read == (await _records(client, uri) or {}).get(place):
                    soaked.swapped += 1
                else:
                    soaked.mismatches += 1
                break


async def _records(client: Client, uri: str) -> dict[str, str] | None:
    result = await client.ask("skills/get", {"uri": uri})
    return result and {record["uri"]: record["digest"] for record in result["skill"]["resources"]}


async def _digest(client: Client, uri: str) -> str | None:
    result = await client.ask("resources/read", {"uri": uri})
    if result is None:
        return None
    (contents,) = result["contents"]
    data = contents["text"].encode() if "text" in contents else base64.b64decode(contents["blob"])
    return f"sha256:{sha256(data).hexdigest()}"


def _write(tree: str, soaked: Soaked, over: threading.Event) -> None:
    choose = random.Random(2640)
    skills = [root for root, _, files in os.walk(tree) if "SKILL.md" in files]
    while not over.wait(0.02):
        skill = choose.choice(skills)
        soaked.changes += 1
        match choose.randrange(6):
            case 0 | 1:
                _put(os.path.join(skill, "notes.md"), f"{choose.random()}\n" * choose.randrange(1, 2000))
            case 2:
                _put(os.path.join(skill, "logo.png"), choose.randbytes(choose.randrange(1, 5000)))
            case 3:
                _append(os.path.join(skill, "SKILL.md"), f"\n{choose.random()}\n")
            case 4:
                _put(os.path.join(skill, "new", f"{choose.randrange(3)}.txt"), f"{choose.random()}\n")
            case _:
                _break_and_mend(os.path.join(skill, "SKILL.md"))


def _put(path: str, content: str | bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        data = content.encode() if isinstance(content, str) else content
        file.write(data[: len(data) // 2])
        file.flush()
        file.write(data[len(data) // 2 :])


def _append(path: str, text: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def _break_and_mend(path: str) -> None:
    with open(path, "rb") as file:
        good = file.read()
    _put(path, "---\nname: broken")
    time.sleep(0.25)
    _put(path, good)


if __name__ == "__main__":
    outcome = soak(float(sys.argv[1]) if len(sys.argv) > 1 else 300)
    print(
        f"{outcome.reads:,} reads by {CLIENTS} clients while {outcome.changes:,} changes were made: "
        f"{outcome.mismatches} mismatches. {len(outcome.contents):,} different contents were seen; "
        f"{outcome.swapped:,} reads met a skill that had just been swapped."
    )
    sys.exit(1 if outcome.mismatches or not outcome.reads else 0)
