"""Serving, measured against FastMCP on the same tree, and against the ceilings of the bare SDK and bare Starlette."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.generate import generate as generate_tree
from bench.load import call, generate, list_all, request
from bench.scan import walk
from bench.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

TREES = {size: os.path.join("build", "bench", f"{size}-skills") for size in (100, 1_000, 10_000)}
ONE_TEAM = os.path.join("build", "bench", "1000-skills-of-one-team")  # FastMCP is slower with several directories
CACHE = os.path.join("build", "bench", "cache")
FASTMCP = os.path.join(".peers", "fastmcp", "bin", "python")
ROUNDS = 3
SECONDS = 10.0
REQUESTS = 100_000
INDEX = {"uri": "skill://index.json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers, and how long that took from the start of its process."""

    port: int
    pid: int
    seconds: float

    @property
    def memory(self) -> float:
        """Resident bytes."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def ours(tree: str, *, cache: str = CACHE) -> Iterator[Running]:
    """`skillquay serve` with an index in `cache`."""
    command = [os.path.join(os.path.dirname(sys.executable), "skillquay"), "serve", tree, "--http", "127.0.0.1:0"]
    environment = os.environ | {"XDG_CACHE_HOME": os.path.abspath(cache)}
    start = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            found = next(filter(None, (re.search(r"127\.0\.0\.1:(\d+)/mcp", line) for line in process.stderr)))
            yield Running(port=int(found[1]), pid=process.pid, seconds=time.perf_counter() - start)
        finally:
            process.terminate()


@contextlib.contextmanager
def peer(name: str, tree: str, uri: str) -> Iterator[Running]:
    """One of `bench.peers`, once it has answered a request."""
    python = FASTMCP if name == "fastmcp" else sys.executable
    start = time.perf_counter()
    with subprocess.Popen([python, "-m", "bench.peers", name, tree, uri], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            call(port, "resources/read", {"uri": uri})
            yield Running(port=port, pid=process.pid, seconds=time.perf_counter() - start)
        finally:
            process.terminate()


def some_uri(tree: str) -> str:
    """The `SKILL.md` of some skill of a tree."""
    team = sorted(os.listdir(tree))[1]
    return f"skill://{team}/{min(os.listdir(os.path.join(tree, team)))}/SKILL.md"


def rows() -> Iterator[Row]:
    """Every measurement of serving."""
    for size, tree in TREES.items():
        generate_tree(tree, size)
    generate_tree(ONE_TEAM, 1_000, teams=1)
    yield from listing_rows()
    yield from throughput_rows()
    yield from start_rows()
    yield from long_rows()
    yield from index_rows()


def listing_rows() -> Iterator[Row]:
    tree = ONE_TEAM
    with peer("fastmcp", tree, some_uri(tree)) as other:
        theirs = statistics.median(_listed(other.port, 1_000, page=False) for _ in range(ROUNDS))
    with ours(tree) as server:
        mine = statistics.median(_listed(server.port, 1_000) for _ in range(5))
    yield Row(
        what="full skills/list, 1,000 skills",
        measured=f"{mine * 1000:.1f} ms",
        against=f"FastMCP {theirs:.2f} s",
        ratio=f"{theirs / mine:,.0f} x faster",
        wanted=">= 200 x",
        reached=theirs / mine >= 200,
    )
    pages: dict[int, float] = {}
    for size, each in TREES.items():
        with ours(each) as server:
            list_all(server.port)
            pages[size] = statistics.median(call(server.port, "skills/list", {})[1] for _ in range(30))
    ratio = pages[10_000] / pages[1_000]
    yield Row(
        what="one page of 250, of 10,000 skills",
        measured=f"{pages[10_000] * 1000:.1f} ms",
        against=f"of 1,000 skills {pages[1_000] * 1000:.1f} ms",
        ratio=f"{ratio:.2f} x",
        wanted="about 1 x",
        reached=ratio <= 1.3,
    )


def throughput_rows() -> Iterator[Row]:
    tree = ONE_TEAM
    uri = some_uri(tree)
    read, get = request("resources/read", {"uri": uri}), request("skills/get", {"uri": uri})
    theirs = request("resources/read", {"uri": uri.replace("team-0/", "")})
    rates: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        ports = {name: stack.enter_context(peer(name, tree, uri)).port for name in ("starlette", "sdk", "fastmcp")}
        ports["ours"] = stack.enter_context(ours(tree)).port
        plan = [(name, port, theirs if name == "fastmcp" else read) for name, port in ports.items()]
        plan.append(("ours, skills/get", ports["ours"], get))
        for _ in range(ROUNDS):
            for name, port, asked in plan:
                load = generate(port, [asked], seconds=SECONDS)
                assert not load.errors, name
                rates.setdefault(name, []).append(load.rate)
    best, ceiling = rates["sdk"], statistics.median(rates["starlette"])
    for what, name in (("resources/read", "ours"), ("skills/get", "ours, skills/get")):
        ratio = statistics.median(mine / bare for mine, bare in zip(rates[name], best, strict=True))
        mine = statistics.median(rates[name])
        yield Row(
            what=f"{what}, 32 connections",
            measured=f"{mine:,.0f}/s",
            against=f"bare SDK {statistics.median(best):,.0f}/s",
            ratio=f"{ratio:.2f} x",
            wanted=">= 0.90 x",
            reached=ratio >= 0.9,
        )
        yield Row.told(f"{what}, 32 connections", f"{mine:,.0f}/s", f"bare Starlette {ceiling:,.0f}/s", mine / ceiling)
    mine, other = statistics.median(rates["ours"]), statistics.median(rates["fastmcp"])
    yield Row.told("resources/read, 32 connections", f"{mine:,.0f}/s", f"FastMCP {other:,.0f}/s", mine / other)


def start_rows() -> Iterator[Row]:
    from bench.__main__ import run_scan

    tree = TREES[10_000]
    first: list[tuple[float, float]] = []
    second: list[tuple[float, float]] = []
    memory = 0.0
    for _ in range(ROUNDS):
        with peer("sdk", tree, some_uri(tree)) as bare:
            own = bare.seconds
        floor, _ = run_scan("floor")
        start = time.perf_counter()
        walk(tree)
        walked = time.perf_counter() - start
        shutil.rmtree(CACHE, ignore_errors=True)
        for target, allowed in ((first, 2 * floor + own), (second, 2 * walked + own)):
            start = time.perf_counter()
            with ours(tree) as server:
                _listed(server.port, 10_000)
                target.append((time.perf_counter() - start, allowed))
                _wait_for_index()
                memory = max(memory, server.memory)
    for what, runs, wanted in (
        ("start to full listing, 10,000 skills", first, "2 x floor + SDK"),
        ("second start, nothing changed", second, "2 x walk + SDK"),
    ):
        ratio = statistics.median(mine / allowed for mine, allowed in runs)
        yield Row(
            what=what,
            measured=f"{statistics.median(mine for mine, _ in runs):.2f} s",
            against=f"{wanted} {statistics.median(allowed for _, allowed in runs):.2f} s",
            ratio=f"{ratio:.2f} x",
            wanted="<= 1 x",
            reached=ratio <= 1,
        )
    yield Row(
        what="memory at 10,000 skills",
        measured=f"{memory / 1e6:.0f} MB",
        against="",
        ratio="",
        wanted="<= 150 MB",
        reached=memory <= 150e6,
    )


def long_rows() -> Iterator[Row]:
    tree = TREES[10_000]
    uri = some_uri(tree)
    with ours(tree) as server:
        list_all(server.port)
        requests = [request("resources/read", {"uri": uri}), request("skills/get", {"uri": uri})]
        generate(server.port, requests, seconds=5)
        before, answers = server.memory, 0
        while answers < REQUESTS:
            answers += generate(server.port, requests, seconds=5).answers
        growth = (server.memory - before) / 1e6
        yield Row(
            what=f"growth over {answers:,} requests",
            measured=f"{growth:+.1f} MB",
            against=f"{before / 1e6:.0f} MB",
            ratio="",
            wanted="none",
            reached=growth < 2,
        )
        seen = statistics.median(_seen_after_change(tree, uri, server.port) for _ in range(5))
        yield Row(
            what="one changed skill of 10,000, until it is seen",
            measured=f"{seen * 1000:.0f} ms",
            against="",
            ratio="",
            wanted="< 1 s",
            reached=seen < 1,
        )


def index_rows() -> Iterator[Row]:
    """`skill://index.json`, which hosts of the drafts before v1 read."""
    tree = TREES[10_000]
    uri = some_uri(tree)
    with ours(tree) as server:
        list_all(server.port)
        start = time.perf_counter()
        while call(server.port, "resources/read", INDEX)[0]["result"]["ttlMs"] == 0:  # not all archives are known yet
            time.sleep(0.05)
        built = time.perf_counter() - start
        runs = [(call(server.port, "resources/read", INDEX)[1], list_all(server.port)[1]) for _ in range(9)]
        ratio = statistics.median(index / listing for index, listing in runs)
        yield Row(
            what="skill://index.json, 10,000 skills, first reading with all archives",
            measured=f"{built:.1f} s",
            against="",
            ratio="",
            wanted="",
            reached=True,
        )
        yield Row(
            what="skill://index.json, 10,000 skills, from prepared bytes",
            measured=f"{statistics.median(index for index, _ in runs) * 1000:.0f} ms",
            against=f"full skills/list {statistics.median(listing for _, listing in runs) * 1000:.0f} ms",
            ratio=f"{ratio:.2f} x",
            wanted="<= 1 x",
            reached=ratio <= 1,
        )
        after: list[float] = []
        for _ in range(5):
            _seen_after_change(tree, uri, server.port)
            answer, spent = call(server.port, "resources/read", INDEX)
            assert answer["result"]["ttlMs"], "the changed skill is packed within the time a reader waits"
            after.append(spent)
        again = statistics.median(after)
        yield Row(
            what="the index after one changed skill",
            measured=f"{again * 1000:.0f} ms",
            against=f"first build with all archives {built:.1f} s",
            ratio=f"{again / built:.3f} x",
            wanted="<= 0.1 x",
            reached=again <= 0.1 * built,
        )


def _listed(port: int, count: int, *, page: bool = True) -> float:
    start = time.perf_counter()
    if page:
        found, _ = list_all(port)
    else:
        found = len(call(port, "skills/list", {})[0]["result"]["skills"])
    assert found == count, found
    return time.perf_counter() - start


def _wait_for_index() -> None:
    """The index is written in the background; the next start should find all of it."""
    size = -1
    while True:
        time.sleep(1)
        files = [entry.path for entry in os.scandir(os.path.join(CACHE, "skillquay", "served"))]
        now = sum(map(os.path.getsize, files))
        if now == size:
            return
        size = now


def _seen_after_change(tree: str, uri: str, port: int) -> float:
    path = os.path.join(tree, *uri.removeprefix("skill://").split("/"))
    before = call(port, "skills/get", {"uri": uri})[0]["result"]["skill"]["resources"]
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{time.time_ns()}\n")
    start = time.perf_counter()
    while call(port, "skills/get", {"uri": uri})[0]["result"]["skill"]["resources"] == before:
        time.sleep(0.005)
    return time.perf_counter() - start
