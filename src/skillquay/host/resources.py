"""Other resources of servers, for the model: never a way round a skill's window or its approval (R2, W2, O2, X3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skillquay.core.context import render_file, render_files, render_resource
from skillquay.core.drafts import Dialect
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten
from skillquay.core.lookalikes import Places, looks_like
from skillquay.core.uris import MAX_URI_LENGTH, SkillUri
from skillquay.dialects.sep2076_entries import is_remote
from skillquay.errors import RefusedError, UnavailableError, UnlistedFileError, UriError
from skillquay.host.client import is_missing

if TYPE_CHECKING:
    from skillquay.core.acting import ActingSkill
    from skillquay.core.entries import SkillEntry
    from skillquay.host.context import ModelContext
    from skillquay.host.host import SkillHost
    from skillquay.host.servers import SkillServer

__all__ = ["read_resource"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


async def read_resource(host: SkillHost, context: ModelContext, server: SkillServer, uri: str) -> str:
    """A resource of a server; a directory is listed. It activates nothing, whatever it holds (R2).

    While a served skill is in use, a read on another server is asked about each time (O2), and a read inside the
    skill's directory is a read of its files (W2). Files of skills that are not in use are for `read_skill`.
    """
    place = _checked(host, server, uri)
    await context.may_read(server.label, uri)
    await _may_fetch(host, context, server, uri)
    limit = host.budgets.shown_characters
    if place is not None:
        for window in _governing(host, server, place):
            if (known := host.get(window.skill)) is not None:
                context.check_usable(known)
            if (listed := _listed(window.entry, place)) is not None:
                read = await host.loading.read(server, window, listed)
                return render_file(read.file, window.skill, limit=limit)
            if isinstance(window.entry.resources, Manifest) and (files := _below(window.entry, place)):
                return render_files(window.skill, files, limit=limit)
        host.loading.windows.check_read(server.label, place)
    try:
        data = await server.client.read_file(uri)
    except UnavailableError as error:
        if place is None or not is_missing(error) or not server.client.reads_directories:
            raise
        children = [child for child in await server.client.read_directory(place) if place.contains(child.uri)]
        names = "\n".join(f"{child.uri}{'/' if child.is_directory else ''}" for child in children)
        return render_resource(server.label, uri, names.encode(), limit=limit)
    return render_resource(server.label, uri, data, limit=limit)


def _governing(host: SkillHost, server: SkillServer, place: SkillUri) -> list[ActingSkill]:
    """The windows a place lies in. One with a list of files decides, whatever a generated skill around it gives."""
    windows = host.loading.windows.governing(server.label, place)
    return [each for each in windows if isinstance(each.entry.resources, Manifest)] or list(windows)


def _checked(host: SkillHost, server: SkillServer, uri: str) -> SkillUri | None:
    """Refuse URIs by which a skill's files could be reached past its window, in whatever spelling (W2, X3)."""
    scheme = _SCHEME.match(uri)
    if len(uri) > MAX_URI_LENGTH or scheme is None:
        raise UriError(f'"{shorten(uri)}" is not a URI. Give one such as the server names itself.')
    windows = host.loading.windows.open_windows
    in_use = Places.of(acting.entry for skill, acting in windows.items() if skill.server == server.label)
    listed = server.places
    try:
        place = SkillUri(uri)
    except UriError:
        if scheme[1].lower() in {"skill", *in_use.schemes, *listed.schemes}:
            raise
        return None
    if host.loading.windows.governing(server.label, place):
        return place
    if looks_like(place) in in_use.archives | listed.archives:
        raise RefusedError(f"{shorten(uri)} is the archive of a skill. Load that with read_skill.", rule="R2")
    if in_use.root_of(place) is not None:
        message = f"{shorten(place)} is no URI of a skill in use, and looks like one."
        raise UnlistedFileError(message, uri=place, rule="W2")
    if listed.root_of(place) is not None:
        raise RefusedError(f"{shorten(uri)} belongs to a skill. Load that with read_skill.", rule="R2")
    return place


async def _may_fetch(host: SkillHost, context: ModelContext, server: SkillServer, uri: str) -> None:
    """What a skill has its server fetch from elsewhere is asked about, whichever tool it has it read by (I14)."""
    for skill, acting in host.loading.windows.open_windows.items():
        if skill.server == server.label and acting.entry.dialect is Dialect.PRIMITIVE and is_remote(uri):
            await host.consent.may_fetch(skill, acting.entry, uri, context.inspector(skill, acting.entry))
            return


def _listed(entry: SkillEntry, place: SkillUri) -> SkillUri | None:
    """The URI of a file of the skill, as its entry spells it."""
    if not isinstance(entry.resources, Manifest):
        return place if entry.root.contains(place) else None
    record = entry.resources.find(place)
    return None if record is None else record.uri


def _below(entry: SkillEntry, directory: SkillUri) -> list[tuple[str, int | None]]:
    """The files below a directory of the skill, from its entry alone (D2)."""
    assert isinstance(entry.resources, Manifest)
    return [(directory.relative(file.uri), file.size) for file in entry.resources.files if directory.contains(file.uri)]
