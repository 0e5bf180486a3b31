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
from skillquay.core.hidden import visible
from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.errors import EntryError, UriError

if TYPE_CHECKING:
    from skillquay.core.entries import SkillEntry

__all__ = ["is_remote", "read_got", "read_listed", "required_arguments"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_REMOTE: Final = frozenset(
    {
        "dav",
        "davs",
        "ftp",
        "ftps",
        "git",
        "gopher",
        "gs",
        "http",
        "https",
        "ipfs",
        "ldap",
        "ldaps",
        "nfs",
        "rsync",
        "s3",
    }
    | {"scp", "sftp", "smb", "ssh", "svn", "telnet", "tftp", "webdav", "webdavs", "ws", "wss"}
)
_ON_ANOTHER: Final = re.compile(r"file:(?:[/\\]{2}(?!localhost(?:[/\\]|$))[^/\\]|[/\\]{4})", re.IGNORECASE)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
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


def required_arguments(entry: SkillEntry) -> tuple[str, ...]:
    """The names of the arguments without which the server does not give the skill."""
    arguments = entry.frontmatter.get("arguments")
    items = arguments if isinstance(arguments, list | tuple) else ()
    return tuple(str(item.get("name")) for item in items if isinstance(item, Mapping) and item.get("required") is True)


def is_remote(uri: str) -> bool:
    """True for a URI that its server would have to fetch from somewhere else; a person is asked first (I14).

    That goes for a `file:` with the name of a host, too: some systems reach out to it.
    """
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return False
    return not _REMOTE.isdisjoint(scheme[1].lower().split("+")) or _ON_ANOTHER.match(uri) is not None


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
