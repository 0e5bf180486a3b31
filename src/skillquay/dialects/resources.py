"""Skills that a server only shows as resources: with FastMCP's `_manifest`, or as bare `SKILL.md` files (I8, I11)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillquay.core.drafts import Dialect, Draft
from skillquay.core.entries import DYNAMIC, LIMITS, parse_entry
from skillquay.core.hidden import shorten
from skillquay.core.uris import SkillUri
from skillquay.errors import EntryError, UriError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.entries import SkillEntry

__all__ = ["Candidate", "find_candidates", "read_bare", "read_manifest"]

_MANIFEST: Final = "_manifest"
_CLAIMED: Final = frozenset({"name", "description"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A `SKILL.md` among the resources of a server; `manifest` is the resource that lists the skill's files."""

    uri: SkillUri
    description: str
    manifest: SkillUri | None


def find_candidates(resources: Iterable[object]) -> list[Candidate]:
    """The skills among these resources, by the `skill` scheme and the name of the file."""
    found: dict[tuple[str, ...], tuple[SkillUri, str]] = {}
    for item in resources:
        if isinstance(item, Mapping) and (uri := _uri(item.get("uri"))) is not None:
            description = item.get("description")
            found.setdefault(uri.key, (uri, description if isinstance(description, str) else ""))
    candidates = []
    for uri, said in found.values():
        if uri.is_skill:
            description = (
                "" if said == f"Skill: {uri.segments[-2]}" else said
            )  # what FastMCP says without having looked
            manifest, _ = found.get((*uri.key[:-1], _MANIFEST), (None, ""))
            candidates.append(Candidate(uri=uri, description=description, manifest=manifest))
    return candidates


def read_bare(candidate: Candidate) -> SkillEntry:
    """The entry of a `SKILL.md` of which nothing is known but what the listing says."""
    frontmatter = {"name": candidate.uri.segments[-2], "description": candidate.description or _NOT_DESCRIBED}
    entry = parse_entry({"uri": candidate.uri, "frontmatter": frontmatter, "resources": DYNAMIC})
    claims = _CLAIMED if candidate.description else frozenset({"name"})
    return replace(entry, draft=Draft(dialect=Dialect.BARE, claims=claims))


def read_manifest(candidate: Candidate, data: bytes) -> SkillEntry:
    """The entry of a skill whose files FastMCP lists with their sizes and hashes."""
    try:
        manifest = json.loads(data)
    except (RecursionError, ValueError):
        raise EntryError("is not JSON.", field=_MANIFEST, rule="I8") from None
    files = manifest.get("files") if isinstance(manifest, Mapping) else None
    if not isinstance(files, list) or len(files) > LIMITS.files:
        raise EntryError(f"has no array of at most {LIMITS.files} files.", field=_MANIFEST, rule="I8")
    name = candidate.uri.segments[-2]
    if manifest.get("skill") != name:
        raise EntryError(f'is about another skill than "{shorten(name)}".', field=_MANIFEST, rule="I8")
    root = candidate.uri.root
    entry = parse_entry(
        {
            "uri": candidate.uri,
            "frontmatter": {"name": name, "description": candidate.description or _NOT_DESCRIBED},
            "resources": [_record(root, file) for file in files],
        }
    )
    claims = _CLAIMED if candidate.description else frozenset({"name"})
    return replace(entry, draft=Draft(dialect=Dialect.FASTMCP, claims=claims))


_NOT_DESCRIBED: Final = "(its server does not describe it)"


def _record(root: SkillUri, file: object) -> dict[str, object]:
    if not isinstance(file, Mapping) or not isinstance(file.get("path"), str):
        raise EntryError("lists a file without a path.", field=_MANIFEST, rule="I8")
    try:
        uri = root.child(file["path"])
    except UriError as error:
        raise EntryError(error.message, field=_MANIFEST, rule=error.rule) from None
    return {"uri": uri, "digest": file.get("hash"), "size": file.get("size")}


def _uri(text: object) -> SkillUri | None:
    try:
        uri = SkillUri(text) if isinstance(text, str) else None
    except UriError:
        return None
    return uri if uri is not None and uri.scheme == "skill" else None
