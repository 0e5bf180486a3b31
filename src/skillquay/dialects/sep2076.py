"""What SEP-2076 says of a skill, made from its entry and its body (I7, I14).

A field of the frontmatter is given where it has the shape that the proposal asks for, and is left out otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skillquay.core.frontmatter import cut
from skillquay.core.hidden import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillquay.core.entries import SkillEntry

__all__ = ["Offered", "SkillFile", "argument_problem", "declared_arguments", "definition", "missing", "summary"]

_PROMPT, _RESOURCE = "ref/prompt", "ref/resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """One file of a skill besides its `SKILL.md`."""

    path: str
    uri: str
    mime_type: str | None

    def to_json(self) -> dict[str, Any]:
        """The file as it travels. Nothing in a skill's directory says that a file must be read."""
        kind = {} if self.mime_type is None else {"mimeType": self.mime_type}
        return {"name": self.path, "uri": self.uri, **kind, "required": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What else a server offers; `reads` says of a URI, or of a template, whether the server can read it."""

    tools: frozenset[str]
    prompts: frozenset[str]
    reads: Callable[[str], bool]


def summary(entry: SkillEntry) -> dict[str, Any]:
    """A skill in the answer of `skills/list`."""
    found = {
        "name": entry.name,
        "title": _text(entry.frontmatter, "title"),
        "description": entry.description,
        "version": _version(entry.frontmatter),
        "tags": _tags(entry.frontmatter),
        "arguments": declared_arguments(entry.frontmatter),
        "dependencies": _dependencies(entry.frontmatter),
    }
    return {key: value for key, value in found.items() if value}


def definition(entry: SkillEntry, skill_md: bytes, files: Iterable[SkillFile]) -> dict[str, Any]:
    """The answer of `skills/get`; the instructions are the body of `SKILL.md`, to the letter."""
    dependencies = _dependencies(entry.frontmatter)
    return {
        "description": entry.description,
        "instructions": skill_md[cut(skill_md).body_start :].decode(),
        **({"dependencies": dependencies} if dependencies else {}),
        "files": [file.to_json() for file in files],
    }


def declared_arguments(frontmatter: Mapping[str, object]) -> list[dict[str, Any]]:
    """The arguments a skill declares; none when one of them is not as it should be."""
    declared = frontmatter.get("arguments")
    if not isinstance(declared, list) or not all(map(_is_argument, declared)):
        return []
    return [
        {key: each[key] for key in ("name", "title", "description", "required") if key in each} for each in declared
    ]


def argument_problem(frontmatter: Mapping[str, object], given: Mapping[str, str]) -> str | None:
    """Why a skill cannot be had with these arguments; None when it can. More of them than it declares do no harm."""
    absent = [
        each["name"]
        for each in declared_arguments(frontmatter)
        if each.get("required", False) and each["name"] not in given
    ]
    if not absent:
        return None
    return f'The skill needs the argument "{shorten(absent[0])}". Give all that skills/list marks as required.'


def missing(frontmatter: Mapping[str, object], offered: Offered) -> list[str]:
    """What a skill depends on and its server does not offer, each in words."""
    return list(_missing(_dependencies(frontmatter), offered))


def _missing(dependencies: Mapping[str, Any], offered: Offered) -> Iterator[str]:
    for tool in dependencies.get("tools", ()):
        if tool not in offered.tools:
            yield f'the tool "{shorten(tool)}"'
    for prompt in dependencies.get("prompts", ()):
        if prompt["name"] not in offered.prompts:
            yield f'the prompt "{shorten(prompt["name"])}"'
    for resource in dependencies.get("resources", ()):
        if not offered.reads(resource["uri"]):
            yield f"the resource {shorten(resource['uri'])}"


def _dependencies(frontmatter: Mapping[str, object]) -> dict[str, Any]:
    declared = frontmatter.get("dependencies")
    if not isinstance(declared, Mapping):
        return {}
    tools = declared.get("tools")
    found = {
        "tools": list(tools) if isinstance(tools, list) and _is_texts(tools) else [],
        "prompts": _references(declared.get("prompts"), _PROMPT, "name"),
        "resources": _references(declared.get("resources"), _RESOURCE, "uri"),
    }
    return {key: value for key, value in found.items() if value}


def _references(declared: object, kind: str, member: str) -> list[dict[str, str]]:
    """References as the protocol writes them; an author may write the name or the URI alone."""
    if not isinstance(declared, list):
        return []
    found: list[dict[str, str]] = []
    for each in declared:
        is_reference = isinstance(each, Mapping) and each.get("type", kind) == kind
        value = each.get(member) if is_reference else each
        if not isinstance(value, str) or not value:
            return []
        found.append({"type": kind, member: value})
    return found


def _text(frontmatter: Mapping[str, object], key: str) -> str | None:
    for fields in _places(frontmatter):
        value = fields.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def _version(frontmatter: Mapping[str, object]) -> str | None:
    """The version. Who does not quote it has written a number, which is given as JSON writes it."""
    for fields in _places(frontmatter):
        value = fields.get("version")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return json.dumps(value)
        if isinstance(value, str) and value:
            return value
    return None


def _tags(frontmatter: Mapping[str, object]) -> list[str] | None:
    """The tags; the format has only text under `metadata`, so that commas part them there."""
    for fields in _places(frontmatter):
        value = fields.get("tags")
        if isinstance(value, str) and fields is not frontmatter:
            value = [tag for each in value.split(",") if (tag := each.strip())]
        if isinstance(value, list) and _is_texts(value):
            return list(value)
    return None


def _places(frontmatter: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Where a field may stand: by itself, or under `metadata`, where Agent Skills put what the format does not name."""
    yield frontmatter
    metadata = frontmatter.get("metadata")
    if isinstance(metadata, Mapping):
        yield metadata


def _is_texts(value: list[object]) -> bool:
    return all(isinstance(each, str) and each for each in value)


def _is_argument(value: object) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or not value["name"]:
        return False
    texts = all(isinstance(value.get(key, ""), str) for key in ("title", "description"))
    return texts and isinstance(value.get("required", False), bool)
