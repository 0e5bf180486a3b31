"""Kill a process that records answers, again and again: is every answer there that it was told is kept?

    python -m tests.host.kill_loop ROUNDS [WHERE]

The process prints each answer after `record` returned, and is killed with SIGKILL at a random moment. What it printed
must be there, whole; of what it did not get to print there may be one at most, and that whole too. SIGKILL takes away
the process and not the machine: what a power cut would take is not tried here.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache

from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.host.store import Store
from tests.core.builders import ACME, Published, publish

ROUNDS = 60
LONGEST = 0.4  # seconds that a process may live


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it: answers told to be kept, and answers found that nobody had been told of."""

    rounds: int
    told: int
    untold: int

    def __str__(self) -> str:
        return f"{self.rounds} kills, {self.told} answers told to be kept, all found; {self.untold} found untold"


@cache
def skill(turn: int, number: int) -> Published:
    return publish({"a.md": b"%d" % number}, at=f"skill://turn-{turn}/skill-{number}")


def answer(each: Published) -> Approval:
    return Approval.of(each.id(), each.entry, grant=Grant.LOAD, answer=Answer.ALLOW)


def record_forever() -> None:
    """Each line on the input is a turn and a place: record there until killed. The process forks for each of them."""
    import psycopg  # noqa: F401 - before the clock ticks
    import sqlalchemy  # noqa: F401

    for line in sys.stdin:
        turn, where = line.split()
        child = os.fork()
        if child == 0:
            os.write(1, f"{os.getpid()}\n".encode())
            store = Store.open(where)
            for number in range(sys.maxsize):
                each = skill(int(turn), number)
                store.record(answer(each), each.entry, at=float(number))
                os.write(1, f"{number}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(1, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())


def run(rounds: int, where: str, chance: random.Random, *, longest: float = LONGEST, anew: bool = False) -> Outcome:
    """Kill so many times; an AssertionError says what was lost. With `anew`, every time in a place of its own."""
    told: dict[str, dict[int, int]] = {}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.host.kill_loop", "record"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as recorder:
        assert recorder.stdin is not None
        assert recorder.stdout is not None
        for turn in range(rounds):
            place = f"{where}-{turn}" if anew else where
            recorder.stdin.write(f"{turn} {place}\n")
            pid = int(recorder.stdout.readline())
            lines = [recorder.stdout.readline()] if turn == 0 else []  # however slow the machine, one answer is kept
            with contextlib.suppress(subprocess.TimeoutExpired):
                recorder.wait(chance.uniform(0, longest))
            os.kill(pid, signal.SIGKILL)
            while not (line := recorder.stdout.readline()).startswith("ended"):
                lines.append(line)
            assert line == "ended -9\n"
            assert [int(number) for number in lines] == list(range(len(lines)))
            told.setdefault(place, {})[turn] = len(lines)
            if turn % 20 == 19:
                check(place, told[place])
        recorder.stdin.close()
    untold = sum(check(place, turns) for place, turns in told.items())
    return Outcome(rounds=rounds, told=sum(sum(turns.values()) for turns in told.values()), untold=untold)


def check(where: str, told: dict[int, int]) -> int:
    """Everything told is there and whole, with its line in the audit; how many answers nobody was told of."""
    with contextlib.closing(Store.open(where)) as store:
        store.revoke(publish().id(), at=0.0)  # writes nothing, and waits for a server that still writes for the dead
        kept = {each.approval.skill: each for each in store.approvals(ACME)}
        noted = {event.uri for event in store.audit(limit=len(kept) + 1)}
        assert noted == {str(each.uri) for each in kept}
        untold = 0
        for turn, count in told.items():
            for number in range(count + 1):
                each = skill(turn, number)
                found = kept.pop(each.id(), None)
                if found is None:
                    assert number == count, f"{each.id()} was recorded and is not there"
                    continue
                assert found.approval == answer(each)
                assert (found.entry, found.at, found.ended) == (each.entry, float(number), None)
                untold += number == count
        assert not kept, f"nobody recorded {list(kept)}"
    if not where.startswith("postgresql"):
        with contextlib.closing(sqlite3.connect(where)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return untold


def main() -> None:
    if sys.argv[1:2] == ["record"]:
        record_forever()
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as directory:
        where = sys.argv[2] if len(sys.argv) > 2 else os.path.join(directory, "answers.db")
        print(run(rounds, where, random.Random()))


if __name__ == "__main__":
    main()
