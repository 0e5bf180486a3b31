"""A hostile publisher for the authors of hosts: every lie of the threat model, as a case that a host passes or fails.

Implement `HostDriver` for your host, and run each of `hostile_cases()` against it. See docs/testing.md.
"""

from __future__ import annotations

from skillquay.testing.cases import hostile_cases
from skillquay.testing.driver import Ability, Answer, Asked, HostDriver, HostUnderTest, Outcome, Setup, Shown, Subject
from skillquay.testing.publisher import Publisher
from skillquay.testing.running import Breach
from skillquay.testing.stage import Case

__all__ = [
    "Ability",
    "Answer",
    "Asked",
    "Breach",
    "Case",
    "HostDriver",
    "HostUnderTest",
    "Outcome",
    "Publisher",
    "Setup",
    "Shown",
    "Subject",
    "hostile_cases",
]
