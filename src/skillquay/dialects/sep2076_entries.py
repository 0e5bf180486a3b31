"""Skills as a primitive of their own (SEP-2076), read into entries: by name, without digests (I7, I14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from skillquay.core.drafts import Dialect, Draft
from skillquay.core.entries import DYNAMIC, LIMITS, parse_entry
from skillquay.core.hidden import shorten, visible
from skillquay.core.listings import refusal
from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.errors import EntryError, UnavailableError, UriError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillquay.core.entries import SkillEntry
    from skillquay.core.listings import Refused

__all__ = ["is_remote", "read_got", "read_listed", "read_page", "why_not_given"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SCHEMES: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)+")
_REMOTE: Final = frozenset(
    {"abfs", "abfss", "adl", "az", "azure", "cifs", "dav", "davs", "docker", "ftp", "ftps", "gcs", "git", "github"}
    | {"gitlab", "gopher", "gs", "hdfs", "http", "https", "ipfs", "ipns", "ldap", "ldaps", "magnet", "nfs", "npm"}
    | {"oci", "redis", "rediss", "rsync", "s3", "s3a", "scp", "sftp", "smb", "ssh", "svn", "telnet", "tftp", "torrent"}
    | {"unc", "wasb", "wasbs", "webdav", "webdavs", "webhdfs", "ws", "wss"}
)
_OWN_PATH: Final = re.compile(r"(?://(?:localhost)?)?(?:/(?!\.{1,2}(?:/|$))[^/\\?#]+)+", re.IGNORECASE)
_ENCODED_SLASH: Final = re.compile("%2f|%5c", re.IGNORECASE)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MOST_NAMED: Final = 5
_FIELDS: Final = ("title", "version", "tags", "arguments", "dependencies")


def read_listed(item: object) -> SkillEntry:
    """One skill of a listing. It has no address: its place here is made of its name."""
    if not isinstance(item, Mapping) or not isinstance(name := item.get("name"), str):
        raise EntryError("a skill is an object with a name.", field="name", rule="I7")
    description = item.get("description") or item.get("title")
    frontmatter = {key: item[key] for key in _FIELDS if key in item}
    frontmatter |= {"name": name, "description": description or "(its server does not describe it)"}
    try:
        uri = SkillUri.build([name, SKILL_MD])
    except UriError as error:
        raise EntryError(error.message, field="name", rule=error.rule) from None
    entry = parse_entry({"uri": uri, "frontmatter": frontmatter, "resources": DYNAMIC})
    return replace(entry, draft=Draft(dialect=Dialect.PRIMITIVE))


def read_page(items: Sequence[object], first: int, is_unwanted: Callable[[], bool]) -> list[SkillEntry | Refused]:
    """Each skill of a page of a listing on its own. It is not read on once it is unwanted."""
    parsed: list[SkillEntry | Refused] = []
    for index, item in enumerate(items, first):
        if is_unwanted():
            raise UnavailableError("Its listing takes too long to read.", rule="B2")
        try:
            parsed.append(read_listed(item))
        except EntryError as error:
            name = item.get("name") if isinstance(item, Mapping) else None
            parsed.append(refusal(index, name if isinstance(name, str) else "(no name)", error))
    return parsed


def read_got(entry: SkillEntry, answer: Mapping[str, object]) -> tuple[SkillEntry, str]:
    """The instructions of a skill, and its entry with the places of its files. What is no usable file is left out."""
    instructions = answer.get("instructions")
    if not isinstance(instructions, str) or _SURROGATE.search(instructions):
        raise EntryError("is missing, or not text.", field="instructions", rule="I7")
    files = answer.get("files")
    places: dict[tuple[str, ...], str] = {}
    for file in files[: LIMITS.files] if isinstance(files, list) else ():
        if isinstance(file, Mapping) and _is_usable(uri := file.get("uri")):
            assert isinstance(uri, str), "it is usable"
            for path in _paths(entry, file, uri):
                if path.key not in places and path.key != entry.uri.key:
                    places[path.key] = uri
                    break
    assert entry.draft is not None, "it was read from a listing of this dialect"
    draft = replace(entry.draft, places=MappingProxyType(places))
    return replace(entry, draft=draft), instructions


def why_not_given(entry: SkillEntry) -> str:
    """Why its server would not give this skill to a host; empty where nothing speaks against it (I7)."""
    needed = _required_arguments(entry) if entry.dialect is Dialect.PRIMITIVE else ()
    names = ", ".join(f'"{shorten(name)}"' for name in needed[:_MOST_NAMED])
    what = f'The skill "{entry.name}" is given only with arguments ({names}), which this host does not have.'
    return what if needed else ""


def _required_arguments(entry: SkillEntry) -> tuple[str, ...]:
    """The names of the arguments without which the server does not give the skill."""
    arguments = entry.frontmatter.get("arguments")
    items = arguments if isinstance(arguments, list | tuple) else ()
    return tuple(str(item.get("name")) for item in items if isinstance(item, Mapping) and item.get("required") is True)


def is_remote(uri: str) -> bool:
    """True for a URI that its server may have to fetch from somewhere else; a person is asked first (I14).

    A scheme of the server's own is its own matter. One inside another counts, as in `jar:https:`, and so does a `file:`
    with the name of a host: some systems reach out to it.
    """
    scheme = _SCHEMES.match(uri)
    if scheme is None:
        return False
    named = re.split(r"[+:]", scheme[0].lower().rstrip(":"))
    if not _REMOTE.isdisjoint(named):
        return True
    path = uri[uri.lower().index("file:") + 5 :] if "file" in named else None
    return path is not None and (_OWN_PATH.fullmatch(path) is None or _ENCODED_SLASH.search(path) is not None)


def _is_usable(uri: object) -> bool:
    return (
        isinstance(uri, str)
        and len(uri) <= MAX_URI_LENGTH
        and _SCHEME.match(uri) is not None
        and uri.isprintable()
        and visible(uri) == uri
    )


def _paths(entry: SkillEntry, file: Mapping[str, object], uri: str) -> list[SkillUri]:
    """Where the file may lie in the skill, as its instructions would name it: below the skill's name, else by its own.

    The URI itself is only ever sent back to the server that gave it: a `file:` one is never looked at on this machine.
    """
    segments = uri.partition("?")[0].partition("#")[0].partition("://")[2].strip("/").split("/")
    below = segments[segments.index(entry.name) + 1 :] if entry.name in segments else []
    name = file.get("name")
    names = [unquote("/".join(below)), unquote(segments[-1]), name if isinstance(name, str) else ""]
    paths: list[SkillUri] = []
    for each in names:
        try:
            paths.append(entry.root.child(each))
        except UriError:
            continue
    return paths
