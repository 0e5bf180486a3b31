"""The answers of the extension's methods, each from one catalog (C, U, E, L, G, R, D)."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skillquay.archives.formats import ArchiveFormat
from skillquay.core.catalog import find_children, find_file, page_of_children
from skillquay.core.entries import DYNAMIC, Manifest
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.wire.contents import DIRECTORY, MARKDOWN, contents, media_type
from skillquay.wire.index_json import INDEX_URI

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillquay.core.catalog import Catalog, Listed, Node, Where
    from skillquay.core.entries import FileRecord

__all__ = ["INDEX_RESOURCE", "RESOURCES_LIST", "PageSize", "View", "archive_result", "read_result"]

RESOURCES_LIST = "resources/list"
INDEX_RESOURCE: Final = {"uri": str(INDEX_URI), "name": INDEX_URI.name, "mimeType": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSize:
    """How much one page of a listing holds: by entries, and by bytes for the sake of skills with many files."""

    entries: int = 250
    bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One catalog as one asker may see it. A file of a hidden skill is seen where a visible skill holds it too."""

    catalog: Catalog
    where: Where | None
    page_size: PageSize

    def list_skills(self, cursor: str | None) -> dict[str, Any]:
        """`skills/list` (L1)."""
        page = self.catalog.page(cursor, size=self.page_size.entries, max_bytes=self.page_size.bytes, where=self.where)
        return _paged({"skills": [listed.to_json() for listed in page.items]}, page.next_cursor)

    def list_resources(self, cursor: str | None) -> dict[str, Any]:
        """The `SKILL.md` of each skill as a page of `resources/list` (U6)."""
        page = self.catalog.page(cursor, size=self.page_size.entries, where=self.where, listing=RESOURCES_LIST)
        resources = [_skill_resource(listed) for listed in page.items]
        return _paged({"resources": resources}, page.next_cursor)

    def skill(self, uri: SkillUri) -> Listed | None:
        """The skill at this URI of a `SKILL.md` (G1)."""
        listed = self.catalog.skill(uri)
        return listed if listed is not None and self._sees(listed) else None

    def file(self, uri: SkillUri) -> FileRecord | None:
        """The record of a file that is served as such."""
        return find_file(self._around(uri), uri)

    def generated(self, uri: SkillUri) -> Listed | None:
        """The generated skill whose directory this is, or that it lies in."""
        return next((each for each in self._around(uri) if each.entry.resources == DYNAMIC), None)

    def archive(self, uri: SkillUri) -> tuple[Listed, ArchiveFormat] | None:
        """The skill whose archive is read at this URI, and its format: one that lies in no other (I3, I12)."""
        *above, name = uri.segments
        for archive_format in ArchiveFormat:
            own = name.removesuffix(archive_format.suffix)
            if not own or own == name:
                continue
            listed = self.skill(SkillUri.build((*above, own), scheme=uri.scheme).child(SKILL_MD))
            if listed is None or listed.entry.resources == DYNAMIC or len(list(self.catalog.around(listed.uri))) > 1:
                return None
            return listed, archive_format
        return None

    def list_directory(
        self, uri: SkillUri, cursor: str | None, sniff: Callable[[FileRecord], bytes | None]
    ) -> dict[str, Any] | None:
        """`resources/directory/read` (D1); None when this is not a directory."""
        around = self._around(uri)
        nodes = find_children(around, uri)
        return None if nodes is None else self.page_of(nodes, uri, cursor, sniff)

    def page_of(
        self, nodes: Sequence[Node], uri: SkillUri, cursor: str | None, sniff: Callable[[FileRecord], bytes | None]
    ) -> dict[str, Any]:
        """One page of a directory's children, as resources."""
        page = page_of_children(nodes, uri, cursor, size=self.page_size.entries)
        return _paged({"resources": [self._resource(node, sniff) for node in page.items]}, page.next_cursor)

    def _resource(self, node: Node, sniff: Callable[[FileRecord], bytes | None]) -> dict[str, Any]:
        if node.record is None:
            return {"uri": str(node.uri), "name": node.name, "mimeType": DIRECTORY}
        if node.name == SKILL_MD and (listed := self.skill(node.uri)):
            return _skill_resource(listed, size=node.record.size)
        mime_type = media_type(node.name) or media_type(node.name, sniff(node.record))
        resource: dict[str, Any] = {"uri": str(node.uri), "name": node.name, "size": node.record.size}
        if mime_type:
            resource["mimeType"] = mime_type
        return resource

    def _around(self, uri: SkillUri) -> list[Listed]:
        return [listed for listed in self.catalog.around(uri) if self._sees(listed)]

    def _sees(self, listed: Listed) -> bool:
        return self.where is None or self.where(listed.entry)


def read_result(uri: str, name: str, data: bytes) -> dict[str, Any]:
    """`resources/read` of one file (R1, U7)."""
    return {"contents": [contents(uri, data, media_type(name, data))]}


def archive_result(uri: str, archive_format: ArchiveFormat, data: bytes) -> dict[str, Any]:
    """`resources/read` of an archive (I3)."""
    blob = base64.b64encode(data).decode("ascii")
    return {"contents": [{"uri": uri, "mimeType": archive_format.media_type, "blob": blob}]}


def _skill_resource(listed: Listed, size: int | None = None) -> dict[str, Any]:
    entry = listed.entry
    if size is None and isinstance(entry.resources, Manifest) and (record := entry.resources.find(entry.uri)):
        size = record.size
    resource = {
        "uri": str(entry.uri),
        "name": entry.name,
        "description": entry.description,
        "mimeType": MARKDOWN,
    }
    return resource if size is None else {**resource, "size": size}


def _paged(result: dict[str, Any], next_cursor: str | None) -> dict[str, Any]:
    return result if next_cursor is None else {**result, "nextCursor": next_cursor}
