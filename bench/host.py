"""The host, measured against the bare SDK, the bare file system, and itself with one server instead of twenty."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from hashlib import sha256
from typing import TYPE_CHECKING

from mcp import Client

from bench.generate import WORDS
from bench.serving import ours
from bench.slow import vocabulary
from bench.table import Row
from skillquay.core.entries import Manifest
from skillquay.core.identity import SkillId
from skillquay.host.approver import PolicyApprover
from skillquay.host.budgets import Budgets
from skillquay.host.host import SkillHost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

TREE = os.path.join("build", "bench", "one-skill-of-many-files")
CONTENT = os.path.join("build", "bench", "content")
SIZES = {"4 KB": (4 * 1024, 40), "64 KB": (64 * 1024, 40), "1 MB": (1024 * 1024, 6)}
FETCHED = ("4 KB", "64 KB")
SERVERS, SKILLS, DELAY = 20, 500, 1.5
READ_ROUNDS, CACHED_ROUNDS, REGISTRY_ROUNDS = 5, 40, 3
QUERIES = 400
BUDGET = 4000


def rows() -> Iterator[Row]:
    """Every measurement of the host."""
    make_files()
    yield from asyncio.run(reading_rows())
    with slow() as port:
        yield from asyncio.run(registry_rows(port))


def make_files() -> None:
    """One skill with files of every size, as text, the same every time."""
    shutil.rmtree(TREE, ignore_errors=True)
    _write("SKILL.md", "---\nname: reading\ndescription: Files of several sizes.\n---\n\nRead them.\n")
    choose = random.Random(2640)
    for name, (size, _) in SIZES.items():
        for path in _paths(name):
            words = " ".join(choose.choices(WORDS, k=size // 4))
            _write(path, "\n".join(words[start : start + 99] for start in range(0, size, 99))[:size])


async def reading_rows() -> list[Row]:
    """Files of a skill in use: from its server, which runs on this machine, and from the cache."""
    found: list[Row] = []
    shutil.rmtree(CONTENT, ignore_errors=True)
    with ours(TREE) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        async with _host({"local": url}) as host, Client(url, cache=None) as client:
            await host.read_skill("reading")
            for name in FETCHED:
                found += await _fetched_rows(name, host, client)
            for name in SIZES:
                found += await _cached_rows(name, host)
    return found


async def _fetched_rows(name: str, host: SkillHost, client: Client) -> list[Row]:
    """Each file once a round, when it is not in the cache: by itself, as a model reads, and one right after another."""
    paths, files = _paths(name), _files(name, host)

    async def verified(path: str) -> None:
        await host.read_skill_file("reading", path)

    async def bare(path: str) -> None:
        await client.read_resource(f"skill://reading/{path}")

    alone: list[tuple[float, float]] = []
    in_a_row: list[tuple[float, float]] = []
    for number in range(READ_ROUNDS + 1):
        host.cache.clear()
        for path, file in zip(paths, files, strict=True):
            pair = await _seconds(verified, [path]), await _seconds(bare, [path], after=[file])
            alone += [pair] if number else []  # the first round warms up
        host.cache.clear()
        pair = await _seconds(verified, paths), await _seconds(bare, paths, after=files)
        in_a_row += [pair] if number else []
    ratio = _ratio(alone)
    mine, theirs = _medians(alone)
    row = Row(
        what=f"read_skill_file, {name} from a server",
        measured=f"{mine * 1000:.2f} ms",
        against=f"SDK, not verified {theirs * 1000:.2f} ms",
        ratio=f"{ratio:.2f} x",
        wanted="<= 1.15 x",
        reached=ratio <= 1.15,
    )
    mine, theirs = (each / len(paths) * 1000 for each in _medians(in_a_row))
    what = "one right after another, cached meanwhile"
    return [row, Row.told(what, f"{mine:.2f} ms", f"SDK, not verified {theirs:.2f} ms", _ratio(in_a_row))]


async def _cached_rows(name: str, host: SkillHost) -> list[Row]:
    """Cached files, verified anew, against the same files opened, read and hashed."""
    paths, files = _paths(name), _files(name, host)
    skill = host.find("reading")
    assert skill.entry is not None
    assert isinstance(skill.identity, SkillId)
    uris = [skill.entry.root.child(path) for path in paths]
    for path in paths:
        await host.read_skill_file("reading", path)
    await _all_there(files)
    read: list[tuple[float, float]] = []
    shown: list[tuple[float, float]] = []
    for _ in range(CACHED_ROUNDS):
        floor = _hashed(files)
        start = time.perf_counter()
        for uri in uris:
            assert host.cache.read(skill.identity, skill.entry, uri)
        read.append((time.perf_counter() - start, floor))
        start = time.perf_counter()
        for path in paths:
            await host.read_skill_file("reading", path)
        shown.append((time.perf_counter() - start, floor))
    ratio = _ratio(read)
    mine, floor = (each / len(paths) * 1e6 for each in _medians(read))
    whole, _ = (each / len(paths) * 1e6 for each in _medians(shown))
    against = f"open, read, hash {floor:.0f} us"
    return [
        Row(
            what=f"cached content, {name}, hashed again",
            measured=f"{mine:.0f} us",
            against=against,
            ratio=f"{ratio:.2f} x",
            wanted="<= 2 x",
            reached=ratio <= 2,
        ),
        Row.told(f"read_skill_file of it, {name}", f"{whole:.0f} us", against, _ratio(shown)),
    ]


@contextlib.contextmanager
def slow() -> Iterator[int]:
    """The port of the slow servers."""
    command = [sys.executable, "-m", "bench.slow", str(SERVERS), str(SKILLS), str(DELAY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def registry_rows(port: int) -> list[Row]:
    """Many servers asked at once, and what is done with the skills of all of them."""
    urls = {f"server-{number}": f"http://127.0.0.1:{port}/{number}/mcp" for number in range(SERVERS)}
    one = dict(list(urls.items())[:1])
    times = [(await _started(urls), await _started(one)) for _ in range(REGISTRY_ROUNDS + 1)][1:]
    async with _host(urls) as host:
        more = [await _search_row(host), _prompt_row(host)]
    ratio = _ratio(times)
    mine, alone = _medians(times)
    return [
        Row(
            what=f"start with {SERVERS} servers of {SKILLS} skills",
            measured=f"{mine:.2f} s",
            against=f"with one of them {alone:.2f} s",
            ratio=f"{ratio:.2f} x",
            wanted="<= 1.3 x",
            reached=ratio <= 1.3,
        ),
        *more,
    ]


async def _search_row(host: SkillHost) -> Row:
    """Queries as models write them: a word or several, common and rare, the last perhaps only begun.

    They are pure computation, so they are held to processor time, which a busy machine does not stretch.
    """
    choose = random.Random(2640)
    words = vocabulary()

    def query() -> str:
        chosen = choose.choices(words[:40], k=choose.randint(0, 3)) + choose.choices(words, k=choose.randint(1, 5))
        choose.shuffle(chosen)
        chosen[-1] = chosen[-1][: choose.choice((1, 2, 4, 99))]
        return " ".join(chosen)

    await host.search_skills("refund")  # makes the index
    times: list[tuple[float, float]] = []
    for _ in range(QUERIES):
        asked = query()
        start = time.process_time(), time.perf_counter()
        await host.search_skills(asked)
        times.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    most, waited = (statistics.quantiles(each, n=20)[-1] for each in zip(*times, strict=True))
    return Row(
        what=f"search_skills, {len(host.skills):,} skills, 95 of 100",
        measured=f"{most * 1000:.1f} ms",
        against=f"by the clock {waited * 1000:.1f} ms",
        ratio="",
        wanted="<= 20 ms",
        reached=most <= 0.02,
    )


def _prompt_row(host: SkillHost) -> Row:
    times = []
    for _ in range(15):
        start = time.process_time()
        block = host.prompt_block(budget=BUDGET)
        times.append(time.process_time() - start)
    spent, tokens = statistics.median(times), len(block.encode()) / 4
    return Row(
        what=f"prompt_block, {len(host.skills):,} skills",
        measured=f"{spent * 1000:.0f} ms, {tokens:,.0f} tokens",
        against=f"budget {BUDGET:,} tokens",
        ratio="",
        wanted="<= 50 ms, in budget",
        reached=spent <= 0.05 and tokens <= BUDGET,
    )


def _host(servers: dict[str, str]) -> SkillHost:
    return SkillHost(
        servers=servers,
        approver=PolicyApprover(trust=servers),
        state=":memory:",
        budgets=Budgets(discovery=60),  # a busy machine is no reason to measure less
        cache=CONTENT,
        project_skills=(),
        user_skills=(),
    )


async def _started(servers: dict[str, str]) -> float:
    """Until all is known of all servers; not how long it takes to let them go."""
    start = time.perf_counter()
    async with _host(servers) as host:
        spent = time.perf_counter() - start
        assert len(host.skills) == len(servers) * SKILLS, [each.message for each in host.problems]
    return spent


async def _seconds(
    work: Callable[[str], Awaitable[None]], paths: list[str], *, after: list[str] | None = None
) -> float:
    """How long it takes for all paths, begun when these files are there, from rest."""
    await _all_there(after or [])
    await asyncio.sleep(0.002)
    start = time.perf_counter()
    for path in paths:
        await work(path)
    return time.perf_counter() - start


async def _all_there(files: Sequence[str]) -> None:
    while not all(map(os.path.exists, files)):  # noqa: ASYNC110 - nothing tells when a file is there
        await asyncio.sleep(0.002)


def _hashed(files: list[str]) -> float:
    start = time.perf_counter()
    for path in files:
        with open(path, "rb") as file:
            sha256(file.read()).hexdigest()
    return time.perf_counter() - start


def _paths(name: str) -> list[str]:
    size, count = SIZES[name]
    return [f"{size}/{number}.md" for number in range(count)]


def _files(name: str, host: SkillHost) -> list[str]:
    """Where the cache keeps them."""
    skill = host.find("reading")
    assert skill.entry is not None
    assert isinstance(skill.identity, SkillId)
    assert isinstance(skill.entry.resources, Manifest)
    records = [skill.entry.resources.find(skill.entry.root.child(path)) for path in _paths(name)]
    return [
        os.path.join(host.cache.directory, *skill.identity.cache_path(record.digest)) for record in records if record
    ]


def _ratio(pairs: list[tuple[float, float]]) -> float:
    """The machine's speed drifts: each measurement is compared with the one right beside it."""
    return statistics.median(mine / other for mine, other in pairs)


def _medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(mine for mine, _ in pairs), statistics.median(other for _, other in pairs)


def _write(path: str, text: str) -> None:
    path = os.path.join(TREE, "reading", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
