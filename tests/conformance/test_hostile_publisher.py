"""Our own host against every lie of the hostile publisher, in both eras."""

from __future__ import annotations

import pytest

from skillquay.testing import Case, hostile_cases
from tests.conformance.skill_host_driver import SkillHostDriver

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("case", hostile_cases(), ids=str)
async def test_the_host_sees_through_it(case: Case, version: str) -> None:
    await case.run(SkillHostDriver(), deadline=2.5, version=version)
