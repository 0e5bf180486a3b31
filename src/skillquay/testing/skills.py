"""Skills to be honest or to lie about: their files, the records of them, and the entry that describes them (E1-E3).

Nothing here is shared with a host: digests, URIs and frontmatter are written by other code than the one under test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EVIL", "GOOD", "Skill", "make_skill", "record", "skill_md"]

GOOD: Final = "honest-heron"
"""The word in what a server may be trusted to have shown."""
EVIL: Final = "vicious-boar"
"""The word in what must not reach the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill as an honest server would have it; `uri` is that of its `SKILL.md`, `files` are by path."""

    uri: str
    frontmatter: Mapping[str, object]
    files: Mapping[str, bytes]

    @property
    def root(self) -> str:
        """The skill's directory."""
        return self.uri.removesuffix("/SKILL.md")

    def uri_of(self, path: str) -> str:
        """Where one file is read."""
        return f"{self.root}/{quote(path)}"

    def served(self) -> dict[str, bytes]:
        """The files by their URIs."""
        return {self.uri_of(path): data for path, data in self.files.items()}

    def records(self) -> list[dict[str, Any]]:
        """The manifest."""
        return [record(uri, data) for uri, data in self.served().items()]

    def entry(self, **changes: object) -> dict[str, Any]:
        """The entry, with these members in place of the honest ones."""
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": self.records(), **changes}

    def with_files(self, files: Mapping[str, bytes]) -> Skill:
        """With files added or rewritten."""
        return replace(self, files={**self.files, **files})

    def without(self, path: str) -> Skill:
        """With one file less."""
        return replace(self, files={each: data for each, data in self.files.items() if each != path})


def make_skill(
    path: str = "refunds",
    *,
    body: str = f"The word is {GOOD}.\n",
    files: Mapping[str, bytes] | None = None,
    fields: Mapping[str, object] | None = None,
    scheme: str = "skill",
) -> Skill:
    """An honest skill at a path, with more files and more frontmatter where wanted."""
    name = path.rpartition("/")[2]
    frontmatter = {"name": name, "description": f"What {name} is for.", **(fields or {})}
    return Skill(
        uri=f"{scheme}://{path}/SKILL.md",
        frontmatter=frontmatter,
        files={"SKILL.md": skill_md(frontmatter, body), **(files or {})},
    )


def skill_md(frontmatter: Mapping[str, object], body: str) -> bytes:
    """The bytes of a `SKILL.md`. A value of JSON is a value of YAML, and means the same."""
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in frontmatter.items()]
    return f"---\n{''.join(lines)}---\n{body}".encode()


def record(uri: str, data: bytes) -> dict[str, Any]:
    """One file of a manifest."""
    return {"uri": uri, "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}
