"""A hostile publisher for the authors of hosts: every lie of the threat model, as a case that a host passes or fails.

Implement `HostDriver` for your host, and run each of `hostile_cases()` against it. See docs/testing.md.
"""

from __future__ import annotations

TYPE_CHECKING = False  # pytest imports this package for its plugin, which then may have nothing to do
if TYPE_CHECKING:
    from skillquay.testing.cases import hostile_cases
    from skillquay.testing.driver import (
        Ability,
        Answer,
        Asked,
        HostDriver,
        HostUnderTest,
        Outcome,
        Setup,
        Shown,
        Subject,
    )
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

_HOMES = {"Breach": "running", "Case": "stage", "Publisher": "publisher", "hostile_cases": "cases"}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'driver')}"), name)
