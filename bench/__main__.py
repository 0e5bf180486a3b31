"""`make bench`: run every benchmark, or those named (`scan`, `archives`, `serving`, `host`), and print the ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from bench import archives, host, serving
from bench.generate import generate
from bench.table import Row, print_table

TREE = os.path.join("build", "bench", "10000-skills")
ROUNDS = 9


def main() -> int:
    parts = {
        "scan": lambda: [*scan_rows(), version_row()],
        "archives": archives.rows,
        "serving": serving.rows,
        "host": host.rows,
    }
    chosen = sys.argv[1:] or list(parts)
    print("Making the trees (once) …", flush=True)
    generate(TREE, 10_000)
    rows = [row for name in chosen for row in parts[name]()]
    print()
    print_table(rows)
    return 0 if all(row.reached for row in rows) else 1


def scan_rows() -> list[Row]:
    floors: list[float] = []
    times: list[float] = []
    memory = 0.0
    for number in range(ROUNDS + 1):
        floor, _ = run_scan("floor")
        ours, peak = run_scan("skillquay")
        if number:  # the first round fills the page cache
            floors.append(floor)
            times.append(ours)
            memory = max(memory, peak)
    floor, ours = statistics.median(floors), statistics.median(times)
    # The machine's speed drifts: each run is compared with the floor measured right before it.
    ratio = statistics.median(run / bare for run, bare in zip(times, floors, strict=True))
    return [
        Row(
            what="scan + parse + hash, 10,000 skills",
            measured=f"{ours:.2f} s",
            against=f"floor {floor:.2f} s",
            ratio=f"{ratio:.2f} x",
            wanted="<= 1.50 x",
            reached=ratio <= 1.5,
        ),
        Row(
            what="peak memory of that",
            measured=f"{memory / 1e6:.0f} MB",
            against="",
            ratio="",
            wanted="<= 200 MB",
            reached=memory <= 200e6,
        ),
    ]


def version_row() -> Row:
    ours = _median([os.path.join(os.path.dirname(sys.executable), "skillquay"), "--version"])
    bare = _median([sys.executable, "-c", "pass"])
    return Row(
        what="skillquay --version",
        measured=f"{ours * 1000:.0f} ms",
        against=f"python -c pass {bare * 1000:.0f} ms",
        ratio=f"{ours / bare:.2f} x",
        wanted="<= 2 x + 100 ms",
        reached=ours <= 2 * bare + 0.1,
    )


def run_scan(name: str) -> tuple[float, float]:
    output = subprocess.run(
        [sys.executable, "-m", "bench.scan", name, TREE], check=True, capture_output=True, text=True
    ).stdout.split()
    return float(output[0]), float(output[1])


def _median(command: list[str]) -> float:
    times: list[float] = []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
