"""What `skill://index.json` looked like in the drafts, cut out of the one document that our own publisher makes."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from skillquay.wire.index_json import ARCHIVE, INDEX_URI, SCHEMA, SKILL_MD_TYPE
from tests.interop.skills import SKILLS, files_of
from tests.server.asking import MODERN, asking, low_level, until_equal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillquay.server.extension import Skills

__all__ = ["SHAPES", "Document", "read_index", "read_published"]

Document = dict[str, Any]


async def read_index(read: Callable[[str], Awaitable[str]]) -> Document:
    """The document, as soon as every archive in it has been packed."""
    document: Document = {}

    async def is_whole() -> bool:
        document.update(json.loads(await read(INDEX_URI)))
        return all("archives" in entry for entry in document["skills"])

    await until_equal(is_whole, True, "the index lists the archives of each skill")
    return document


async def read_published(skills: Skills) -> tuple[Document, dict[str, bytes]]:
    """The document, and the bytes of every file and archive that it leads to."""
    files = {uri: data for name in SKILLS for uri, data in files_of(name).items()}
    async with asking(low_level(skills), MODERN) as asker:
        document = await read_index(asker.text)
        for entry in document["skills"]:
            for archive in entry["archives"]:
                (item,) = (await asker.ask("resources/read", {"uri": archive["url"]}))["contents"]
                files[archive["url"]] = base64.b64decode(item["blob"])
    return document, files


def june(document: Document) -> Document:
    return {"skills": [_only(entry, "frontmatter", "url", "digest", "archives") for entry in document["skills"]]}


def june_without_archives(document: Document) -> Document:
    return {"skills": [_only(entry, "frontmatter", "url", "digest") for entry in document["skills"]]}


def june_of_archives(document: Document) -> Document:
    return {"skills": [_only(entry, "frontmatter", "archives") for entry in document["skills"]]}


def may(document: Document) -> Document:
    return {"$schema": SCHEMA, "skills": [_may_entry(entry) for entry in document["skills"]]}


def may_of_archives(document: Document) -> Document:
    return {"$schema": SCHEMA, "skills": [_may_archive(entry) for entry in document["skills"]]}


def may_of_both(document: Document) -> Document:
    return {"$schema": SCHEMA, "skills": [*may(document)["skills"], *may_of_archives(document)["skills"]]}


def _only(entry: Document, *fields: str) -> Document:
    return {field: entry[field] for field in fields}


def _may_entry(entry: Document) -> Document:
    return {"type": SKILL_MD_TYPE, **_only(entry, "name", "description", "url")}


def _may_archive(entry: Document) -> Document:
    return {"type": ARCHIVE, **_only(entry, "name", "description"), "url": entry["archives"][0]["url"]}


SHAPES = {
    "as we publish it": lambda document: document,
    "June": june,
    "June, no archives": june_without_archives,
    "June, archives only": june_of_archives,
    "April-May": may,
    "April-May, archives only": may_of_archives,
    "April-May, both": may_of_both,
}
