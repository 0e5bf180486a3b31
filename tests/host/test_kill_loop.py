"""A process that is killed at any moment loses no answer it was told is kept, and leaves no half of one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.host.kill_loop import ROUNDS, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.rule("K4")
def test_no_answer_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    outcome = run(ROUNDS, str(tmp_path / "answers.db"), random.Random(2640))
    print(outcome)
    assert outcome.told > 0


@pytest.mark.rule("K4")
def test_no_answer_is_lost_when_the_process_is_killed_that_writes_to_a_server(postgres_url: str) -> None:
    outcome = run(8, postgres_url, random.Random(2640), longest=1.0)
    print(outcome)
    assert outcome.told > 0


@pytest.mark.rule("K4")
def test_a_process_that_is_killed_while_it_makes_the_store_leaves_one_that_works(tmp_path: Path) -> None:
    outcome = run(40, str(tmp_path / "answers.db"), random.Random(2640), longest=0.05, anew=True)
    print(outcome)
    assert outcome.told > 0
