"""Templates of skills that cannot be listed: shown to people as a way to browse, never to a model (I5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD

__all__ = ["Template", "read_template"]

_VARIABLE: Final = re.compile(r"\{([A-Za-z0-9_]{1,64})\}")
_MOST_VARIABLES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The address of skills with a variable in it, in the form of RFC 6570."""

    name: str
    description: str
    url: str

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its plain variables, the first few of them."""
        return tuple(_VARIABLE.findall(self.url)[:_MOST_VARIABLES])


def read_template(item: object) -> Template | None:
    """A template of a `SKILL.md` from `resources/templates/list`; None for any other."""
    if not isinstance(item, Mapping) or not isinstance(url := item.get("uriTemplate"), str):
        return None
    if not url.endswith(f"/{SKILL_MD}") or len(url) > MAX_URI_LENGTH:
        return None
    name, description = item.get("name"), item.get("description")
    return Template(
        name=name if isinstance(name, str) else "",
        description=description if isinstance(description, str) else "",
        url=url,
    )
