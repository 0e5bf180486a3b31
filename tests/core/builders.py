"""Honest skills from files, for tests: an entry that says of its bytes exactly what is true of them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from skillquay.core.entries import DYNAMIC, Manifest, SkillEntry, parse_entry
from skillquay.core.frontmatter import parse_frontmatter
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.uris import SkillUri
from skillquay.core.verification import UnverifiedSkill, VerifiedSkill, accept_dynamic, verify_skill

if TYPE_CHECKING:
    from collections.abc import Mapping

ACME = ServerLabel(label="acme", scope="workspace")
EVIL = ServerLabel(label="evil", scope="workspace")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A skill as an honest server has it: its entry, and the bytes of its files by relative path."""

    entry: SkillEntry
    files: Mapping[str, bytes]

    @property
    def skill_md(self) -> bytes:
        return self.files["SKILL.md"]

    @property
    def manifest(self) -> Manifest:
        assert isinstance(self.entry.resources, Manifest)
        return self.entry.resources

    def uri(self, path: str = "SKILL.md") -> SkillUri:
        return self.entry.root.child(path)

    def id(self, server: ServerLabel = ACME) -> SkillId:
        return SkillId(server=server, uri=self.entry.uri)

    def verified(self) -> VerifiedSkill:
        return verify_skill(self.entry, self.skill_md)

    def unverified(self) -> UnverifiedSkill:
        return accept_dynamic(self.entry, self.skill_md)


def skill_md(name: str = "refunds", *lines: str, body: str = "Refund politely.\n") -> bytes:
    """The bytes of a `SKILL.md`, with more lines of frontmatter where wanted."""
    more = "".join(f"{line}\n" for line in lines)
    return f"---\nname: {name}\ndescription: What {name} is for.\n{more}---\n{body}".encode()


def publish(
    files: Mapping[str, bytes] | None = None,
    *,
    at: str = "skill://refunds",
    dynamic: bool = False,
    frontmatter: Mapping[str, object] | None = None,
    extra: Mapping[str, object] | None = None,
) -> Published:
    """The skill of these files below `at`. `frontmatter` is for servers that say something else than `SKILL.md`."""
    root = SkillUri(at)
    files = {"SKILL.md": skill_md(root.name), **(files or {})}
    honest = parse_frontmatter(files["SKILL.md"]).fields
    resources = [
        {"uri": str(root.child(path)), "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}
        for path, data in files.items()
    ]
    raw = {
        **(extra or {}),
        "uri": f"{at}/SKILL.md",
        "frontmatter": dict(honest if frontmatter is None else frontmatter),
        "resources": DYNAMIC if dynamic else resources,
    }
    return Published(entry=parse_entry(raw), files=files)
