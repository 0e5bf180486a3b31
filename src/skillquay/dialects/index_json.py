"""`skill://index.json` of either draft, read into entries: each accepted or refused alone (I1, I2, I6, I9, I13)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from skillquay.archives.formats import ArchiveFormat, find_format
from skillquay.core.digests import Digest
from skillquay.core.drafts import Archive, Dialect, Draft
from skillquay.core.entries import DYNAMIC, SkillEntry, parse_entry
from skillquay.core.hidden import shorten
from skillquay.core.listings import Refused, reconcile, refusal
from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.dialects.templates import Template
from skillquay.errors import BudgetError, EntryError, UnavailableError, UriError
from skillquay.wire import index_json as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Index", "read_index"]

_CLAIMED: Final = frozenset({"name", "description"})
_MOST_ARCHIVES: Final = 16
_CONTAINERS: Final = 64  # objects and arrays for each skill, on average
_VALUES: Final = 256
_Parsed: TypeAlias = "SkillEntry | Refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What an index lists, and what of it is refused."""

    entries: tuple[SkillEntry, ...]
    refused: tuple[Refused, ...]
    templates: tuple[Template, ...] = ()
    is_shortened: bool = False

    @property
    def dialect(self) -> Dialect:
        """The draft it follows; a document that satisfies both follows the later one."""
        return Dialect.MAY if any(entry.dialect is Dialect.MAY for entry in self.entries[:1]) else Dialect.JUNE


def read_index(data: bytes, *, most: int, is_unwanted: Callable[[], bool] = lambda: False) -> Index:
    """The entries of an index, the first `most` of them. It is not read on once it is unwanted.

    What has very many values in few bytes takes long to read: it is refused before (B1).
    """
    if data.count(b"{") + data.count(b"[") > most * _CONTAINERS or data.count(b",") > most * _VALUES:
        raise BudgetError(f"Its skill://index.json holds more than this host reads for {most:,} skills.", rule="B1")
    try:
        document = json.loads(data, parse_constant=_no_number)
    except (RecursionError, ValueError):
        raise UnavailableError("Its skill://index.json is not JSON.", rule="I1") from None
    items = document.get("skills") if isinstance(document, Mapping) else None
    if not isinstance(items, list):
        raise UnavailableError('Its skill://index.json has no array "skills".', rule="I1")
    parsed: list[SkillEntry | Refused] = []
    templates: list[Template] = []
    for place, item in enumerate(items[:most]):
        if is_unwanted():
            raise UnavailableError("Its skill://index.json takes too long to read.", rule="B2")
        try:
            found = _item(item)
        except EntryError as error:
            parsed.append(refusal(place, _shown(item), error, tuple(_identities(item))))
            continue
        if isinstance(found, Template):
            templates.append(found)
        elif found is not None:
            parsed.append(found)
    entries, refused = reconcile(list(_merged(parsed)))
    return Index(
        entries=tuple(entries),
        refused=tuple(refused),
        templates=tuple(templates),
        is_shortened=len(items) > most,
    )


def _item(item: object) -> SkillEntry | Template | None:
    """One entry of either draft; None for a type that this host does not know."""
    if not isinstance(item, Mapping):
        raise EntryError(f"an entry is an object, not {type(item).__name__}.", field="(entry)", rule="I1")
    if "frontmatter" in item:
        return _june(item)
    match item.get("type"):
        case wire.SKILL_MD_TYPE:
            return _may(item, _text(item, "url"))
        case wire.ARCHIVE:
            return _may_archive(item)
        case wire.TEMPLATE:
            name = item.get("name")
            url, description = _text(item, "url"), _text(item, "description")
            if len(url) > MAX_URI_LENGTH:
                raise EntryError(f"has {len(url):,} characters.", field="url", rule="U3")
            return Template(name=name if isinstance(name, str) else "", description=description, url=url)
        case str():
            return None
    raise EntryError("it has neither a frontmatter nor a type.", field="(entry)", rule="I1")


def _june(item: Mapping[str, object]) -> SkillEntry:
    """The URL and the digest of `SKILL.md` (both or neither), archives, or all of it.

    A document for both drafts may leave the digest of a generated skill out: its type says that it is one of April.
    """
    digest = _digest(item["digest"], "digest") if item.get("digest") is not None else None
    archives = _archives(item.get("archives"))
    archive = next((each for each in archives if find_format(each.media_type, each.url) is not None), None)
    url = item.get("url")
    if url is None and digest is not None:
        raise EntryError("is there without a url.", field="digest", rule="I1")
    if url is not None and digest is None and item.get("type") != wire.SKILL_MD_TYPE:
        raise EntryError("is missing; the url has none without it.", field="digest", rule="I1")
    if url is None and not archives:
        raise EntryError("is missing, and so are archives.", field="url", rule="I1")
    if url is None and archive is None:
        raise EntryError("are all in formats this host does not read.", field="archives", rule="I3")
    frontmatter = item["frontmatter"]
    if url is None:
        name = frontmatter.get("name") if isinstance(frontmatter, Mapping) else None
        url = _built(name if isinstance(name, str) else "")
    entry = parse_entry({"uri": url, "frontmatter": frontmatter, "resources": DYNAMIC})
    draft = Draft(
        dialect=Dialect.JUNE,
        skill_md=digest,
        archive=archive,
        is_archive_only=item.get("url") is None,
        archive_urls=tuple(each.url for each in archives),
    )
    return replace(entry, draft=draft)


def _may(item: Mapping[str, object], url: str, archive: Archive | None = None) -> SkillEntry:
    frontmatter = {key: item[key] for key in _CLAIMED if key in item}
    entry = parse_entry({"uri": url, "frontmatter": frontmatter, "resources": DYNAMIC})
    draft = Draft(
        dialect=Dialect.MAY,
        claims=_CLAIMED,
        archive=archive,
        is_archive_only=archive is not None,
        archive_urls=() if archive is None else (archive.url,),
    )
    return replace(entry, draft=draft)


def _may_archive(item: Mapping[str, object]) -> SkillEntry:
    """Its files live where the archive is, without its suffix (I13). It has no digest: nothing of it can be proven."""
    url = _uri(_text(item, "url"), "url")
    media_type = item.get("mimeType")
    media_type = media_type if isinstance(media_type, str) else None
    if find_format(media_type, url) is None:
        raise EntryError(f'"{shorten(url)}" is no archive this host reads.', field="url", rule="I3")
    suffix = next((each.suffix for each in ArchiveFormat if url.lower().endswith(each.suffix)), "")
    return _may(item, f"{url[: len(url) - len(suffix)]}/{SKILL_MD}", Archive(url=url, media_type=media_type))


def _archives(raw: object) -> list[Archive]:
    """All archives, in whatever format; one that is malformed spoils the entry."""
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise EntryError(f"is of type {type(raw).__name__}, not an array.", field="archives", rule="I1")
    if len(raw) > _MOST_ARCHIVES:
        raise EntryError(f"are {len(raw):,}; at most {_MOST_ARCHIVES} are looked at.", field="archives", rule="B1")
    found: list[Archive] = []
    for place, item in enumerate(raw):
        where = f"archives[{place}]"
        if not isinstance(item, Mapping):
            raise EntryError("is not an object.", field=where, rule="I1")
        media_type = item.get("mimeType")
        url = _uri(_text(item, "url", where), f"{where}.url")
        digest = _digest(item.get("digest"), f"{where}.digest")
        found.append(Archive(url=url, media_type=media_type if isinstance(media_type, str) else None, digest=digest))
    return found


def _merged(parsed: Sequence[_Parsed]) -> Iterator[_Parsed]:
    """A May entry for the files and one for the archive of the same path are one skill: that of the files (I13)."""
    of_may = [each for each in parsed if isinstance(each, SkillEntry) and each.dialect is Dialect.MAY]
    singly = {(entry.uri.key, entry.shown) for entry in of_may if entry.identity == entry.uri}
    packed: dict[tuple[object, ...], list[SkillUri]] = {}
    for entry in of_may:
        if entry.identity != entry.uri and (entry.uri.key, entry.shown) in singly:
            packed.setdefault((entry.uri.key, entry.shown), []).append(entry.identity)
    for each in parsed:
        urls = packed.get((each.uri.key, each.shown)) if packed and isinstance(each, SkillEntry) else None
        if urls is None or isinstance(each, Refused):
            yield each
        elif each.draft is not None and each.identity == each.uri:
            yield replace(each, draft=replace(each.draft, archive_urls=tuple(urls)))


def _built(name: str) -> str:
    try:
        return SkillUri.build([name, SKILL_MD])
    except UriError as error:
        raise EntryError(error.message, field="frontmatter.name", rule="I13") from None


def _text(item: Mapping[str, object], key: str, where: str = "") -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value:
        raise EntryError("is missing, or not a string.", field=f"{where}.{key}" if where else key, rule="I1")
    return value


def _uri(text: str, place: str) -> SkillUri:
    try:
        return SkillUri(text)
    except UriError as error:
        raise EntryError(error.message, field=place, rule=error.rule) from None


def _digest(raw: object, place: str) -> Digest:
    try:
        return Digest(raw)  # type: ignore[arg-type]
    except ValueError as error:
        raise EntryError(f"{error}.", field=place, rule="I1") from None


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is not JSON")


def _identities(item: object) -> Iterator[SkillUri]:
    """Who the skill of a refused entry may have been, as far as it tells (I13)."""
    if not isinstance(item, Mapping):
        return
    archives = item.get("archives")
    found = archives[:_MOST_ARCHIVES] if isinstance(archives, list) else []
    for url in (item.get("url"), *(each.get("url") for each in found if isinstance(each, Mapping))):
        with contextlib.suppress(UriError):
            if isinstance(url, str):
                yield SkillUri(url)


def _shown(item: object) -> str:
    """What is told of an entry that was refused."""
    if isinstance(item, Mapping):
        frontmatter = item.get("frontmatter")
        name = frontmatter.get("name") if isinstance(frontmatter, Mapping) else item.get("name")
        for text in (item.get("url"), name):
            if isinstance(text, str):
                return text
    return "(no url)"
