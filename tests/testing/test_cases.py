"""Every case can be passed and can be failed, and each is described and tied to rules that exist."""

from __future__ import annotations

import tomllib
from pathlib import Path
from unittest import SkipTest

import pytest

from skillquay.testing import Breach, Case, hostile_cases
from skillquay.testing.publisher import MODERN, OLDER
from skillquay.testing.table import case_table
from tests.testing.careful import CarefulDriver
from tests.testing.naive import NaiveDriver
from tests.testing.refusing import RefusingDriver, ShowingDriver
from tests.testing.worse import WorseDriver

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
CASES = {case.id: case for case in hostile_cases()}
# A host that believes everything takes every honest server. It is not asked to ask, so that it keeps no answer.
HONEST = {name for name in CASES if name.startswith("honest")} | {"directory-honest"}
PASSED_BY_THE_NAIVE = (HONEST - {"honest-answer-kept"}) | {
    "16-mib-and-1",
    "513-files",
    "a-petabyte",
    "deep-read",
    "directory-parent",
    "empty-answer",
    "file-gone",
    "flood-of-notices",
    "garbage-on-read",
    "half-a-character",
    "huge-page",
    "internal-error",
    "manifest-backslash",
    "manifest-control",
    "manifest-empty-segment",
    "manifest-long",
    "manifest-not-utf-8",
    "manifest-nul",
    "manifest-slash-inside",
    "named-in-instructions",
    "no-id",
    "not-a-skill",
    "not-base64",
    "nothing-ahead",
    "null-result",
    "redirected",
    "result-and-error",
    "twins-case",
    "twins-unicode",
}
# Where a host that believes everything waits for a server, or takes all that it sends.
ENDLESS = {name for name in CASES if name.startswith(("hang-", "drip-", "pages-", "payload-"))}
ENDLESS |= {"cursor-number", "directory-depth", "directory-loop", "directory-pages", "dynamic-at-once", "wrong-id"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def every(ids: set[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [CASES[name] for name in CASES if name in ids], ids=str)


@every(set(CASES))
async def test_a_careful_host_passes(case: Case) -> None:
    await case.run(CarefulDriver(), deadline=2.0)


@pytest.mark.parametrize("version", [MODERN, OLDER])
@every({"honest", "honest-pages", "honest-missing", "undeclared", "rotated-file", "directory-honest", "recovers"})
async def test_a_careful_host_passes_in_one_era_alone(case: Case, version: str) -> None:
    await case.run(CarefulDriver(), deadline=2.0, version=version)


@every(HONEST - {"honest-answer-kept"})
async def test_a_naive_host_passes_what_is_honest(case: Case) -> None:
    await case.run(NaiveDriver())


@every(set(CASES) - PASSED_BY_THE_NAIVE)
async def test_a_naive_host_fails_what_is_not(case: Case) -> None:
    with pytest.raises(Breach) as breach:
        await case.run(NaiveDriver(), deadline=0.2, patience=1.0 if case.id in ENDLESS else 30.0)
    assert_tells_all(case, str(breach.value))


@every(PASSED_BY_THE_NAIVE - HONEST)
async def test_a_worse_host_fails_the_rest(case: Case) -> None:
    with pytest.raises(Breach) as breach:
        await case.run(WorseDriver(), deadline=0.2)
    assert_tells_all(case, str(breach.value))


@every(set(CASES))
async def test_a_host_that_refuses_everything_fails(case: Case) -> None:
    with pytest.raises(Breach) as breach:
        await case.run(RefusingDriver())
    assert_tells_all(case, str(breach.value))


@every(set(CASES))
async def test_a_host_that_shows_skills_and_loads_none_fails(case: Case) -> None:
    with pytest.raises(Breach) as breach:
        await case.run(ShowingDriver())
    assert_tells_all(case, str(breach.value))


def assert_tells_all(case: Case, message: str) -> None:
    assert message.startswith(f"{case.id}: Your host ")
    assert f" That breaks {', '.join(case.rules)}. {case.title} {case.why}" in message


async def test_a_host_that_takes_everything_is_told_how_much_it_took() -> None:
    with pytest.raises(Breach, match="Your host took 128 MiB for one answer, and would have taken more"):
        await CASES["payload-text"].run(NaiveDriver(), patience=120.0)


async def test_a_case_that_needs_more_than_the_host_has_is_skipped_and_says_so() -> None:
    class Plain(CarefulDriver):
        abilities = frozenset()

    with pytest.raises(SkipTest, match=r"Not judged: denied needs a host with the ability approval\."):
        await CASES["denied"].run(Plain())


def test_there_are_many_cases_each_with_a_name_of_its_own() -> None:
    assert len(CASES) == len(hostile_cases()) >= 50


@pytest.mark.parametrize("case", hostile_cases(), ids=str)
def test_a_case_says_what_happens_and_why_it_matters_and_has_rules_that_exist(case: Case) -> None:
    rules = tomllib.loads((ROOT / "tests" / "rules.toml").read_text(encoding="utf-8"))
    assert case.rules
    assert set(case.rules) <= rules.keys()
    assert case.title.endswith(".")
    assert case.why.endswith(".")
    assert len(set(case.rules)) == len(case.rules)


def test_the_table_in_the_document_is_that_of_the_cases() -> None:
    document = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    made = document.partition("<!-- made by case_table() of skillquay.testing.table -->\n")[2]
    if made != case_table():
        pytest.fail("docs/testing.md is stale. Put what skillquay.testing.table.case_table() gives at its end.")
