"""Which skills of a catalog are served by their names, to somebody whom the server offers this and not that (I7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from skillquay.core.catalog import Catalog, find_file
from skillquay.core.entries import DYNAMIC
from skillquay.core.hidden import shorten
from skillquay.core.uris import SkillUri
from skillquay.dialects.sep2076 import Offered, missing
from skillquay.errors import UriError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillquay.core.catalog import Listed, Where
    from skillquay.server.answers import View
    from skillquay.server.templates import Templates

__all__ = ["NOTHING", "Lists", "Named", "may_depend"]

_LISTING: Final = "sep-2076 skills/list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What the server itself lists, to one asker."""

    tools: frozenset[str] = frozenset()
    prompts: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()


NOTHING: Final = Lists()


class Named:
    """Those skills of one catalog that can be served by name, and why the others cannot.

    Without `lists`, no skill that depends on something besides skills is served, and nothing is said of that.
    """

    def __init__(self, catalog: Catalog, lists: Lists | None, templates: Templates) -> None:
        known = lists or NOTHING
        patterns = list(_parsed(known.templates))

        def reads(uri: str) -> bool:
            own = uri in known.resources or uri in known.templates or any(each.match(uri) for each in patterns)
            return own or templates.reads(uri) or _is_file(catalog, uri)

        offered = Offered(tools=known.tools, prompts=known.prompts, reads=reads)
        self.catalog = catalog
        self.lists = lists
        self.remarks: list[str] = []
        self._by_name: dict[str, list[Listed]] = {}
        for listed in catalog.listed:
            absent = missing(listed.entry.frontmatter, offered) if may_depend(listed) else []
            if not absent:
                self._by_name.setdefault(listed.uri.segments[-2], []).append(listed)
            elif lists is not None:
                self.remarks.append(_not_offered(listed, absent, to_all=lists is NOTHING))
        for name, listed_so in self._by_name.items():
            if len(listed_so) > 1:
                others = ", ".join(shorten(each.uri) for each in listed_so[1:6])
                self.remarks.append(
                    f'{len(listed_so)} skills are named "{name}", and a name is all that SEP-2076 asks for: '
                    f"{shorten(listed_so[0].uri)} is served, {others} not."
                )
        self._candidates = Catalog(listed for listed_so in self._by_name.values() for listed in listed_so)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._by_name)

    def find(self, name: str, where: Where | None) -> Listed | None:
        """The first skill of this name that this asker may see."""
        return next((each for each in self._by_name.get(name, ()) if where is None or where(each.entry)), None)

    def page(self, cursor: str | None, view: View) -> tuple[Sequence[Listed], str | None]:
        """A page of the skills that this asker may see, each name once."""

        def is_first(entry: Any) -> bool:
            found = self.find(entry.name, view.where)
            return found is not None and found.uri == entry.uri

        is_plain = view.where is None and len(self._candidates) == len(self._by_name)
        page = self._candidates.page(
            cursor,
            size=view.page_size.entries,
            max_bytes=view.page_size.bytes,
            where=None if is_plain else is_first,
            listing=_LISTING,
        )
        return page.items, page.next_cursor


def _not_offered(listed: Listed, absent: Sequence[str], *, to_all: bool) -> str:
    what = ", ".join(absent[:5])
    if to_all:
        return f"{shorten(listed.uri)} is not listed: this server does not offer {what}."
    return f"{shorten(listed.uri)} was not listed to a client: this server does not offer it {what}."


def may_depend(listed: Listed) -> bool:
    """True when a skill may depend on something; false when it surely does not."""
    return b'"dependencies":' in listed.text


def _is_file(catalog: Catalog, text: str) -> bool:
    """True when this is a file of a skill, or lies in one that is generated."""
    try:
        uri = SkillUri(text)
    except UriError:
        return False
    around = list(catalog.around(uri))
    return find_file(around, uri) is not None or any(each.entry.resources == DYNAMIC for each in around)


def _parsed(texts: Iterable[str]) -> Iterable[UriTemplate]:
    for text in texts:
        try:
            yield UriTemplate.parse(text)
        except InvalidUriTemplate:
            continue
