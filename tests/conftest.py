"""Shared by all tests: hypothesis settings that are the same on every machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")
