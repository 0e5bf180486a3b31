"""`skill://index.json`, the discovery document of the drafts before v1: its address and its vocabulary (I1, I2)."""

from __future__ import annotations

from typing import Final

from skillquay.core.uris import SkillUri

__all__ = ["ARCHIVE", "INDEX_URI", "SCHEMA", "SKILL_MD_TYPE", "TEMPLATE"]

INDEX_URI: Final = SkillUri("skill://index.json")
SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
SKILL_MD_TYPE: Final = "skill-md"
ARCHIVE: Final = "archive"
TEMPLATE: Final = "mcp-resource-template"
