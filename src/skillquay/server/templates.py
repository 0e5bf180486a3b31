"""Skills that a function makes for the values in a URI: resource templates and their completion (I5)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, CompleteRequestParams
from pydantic import ValidationError

from skillquay.core.catalog import Catalog, find_children
from skillquay.core.fields import name_problem
from skillquay.core.hidden import shorten
from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.errors import UriError
from skillquay.server.answers import read_result
from skillquay.server.publisher import Publisher, called
from skillquay.sources.function import Content, Generation, check_generated
from skillquay.wire.contents import MARKDOWN
from skillquay.wire.index_json import TEMPLATE

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from skillquay.server.answers import View

__all__ = ["Complete", "TemplateFunction", "Templates", "complete_otherwise"]

TemplateFunction: TypeAlias = "Callable[..., Content | Awaitable[Content]]"
Values: TypeAlias = "Sequence[str] | Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]"
Complete: TypeAlias = "Mapping[str, Values]"
"""For a variable, the values it may have: a list, or a function of what has been typed so far."""

_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_VALUES: Final = 100  # in one answer; the protocol's limit
_LOOKING: Final = 2.0  # seconds for finding out which values an asker may see
_NO_ARGUMENT: Final = "A completion needs the name of an argument, and the text it begins with."
_NO_COMPLETION: Final = "Nothing is known to complete here. resources/templates/list names the templates."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    uri: str
    name: str
    description: str
    scheme: str
    segments: tuple[str, ...]
    function: TemplateFunction
    complete: Complete

    @property
    def variables(self) -> list[str]:
        return [match[1] for match in map(_VARIABLE.fullmatch, self.segments) if match]

    def match(self, uri: SkillUri) -> tuple[SkillUri, dict[str, str]] | None:
        """The root of the skill that a URI is, or lies in, and the values of the variables.

        A `SkillUri` has been taken apart already, and no segment of it can walk anywhere; each value is one of them.
        """
        found = uri.segments[: len(self.segments)]
        if uri.scheme != self.scheme or len(found) < len(self.segments) or name_problem(found[-1]):
            return None
        values: dict[str, str] = {}
        for expected, segment in zip(self.segments, found, strict=True):
            if variable := _VARIABLE.fullmatch(expected):
                values[variable[1]] = segment
            elif segment != expected:
                return None
        return SkillUri.build(found, scheme=self.scheme), values

    def build(self, values: Mapping[str, str]) -> SkillUri | None:
        """The URI of the skill for these values; None when one is missing, or cannot be in a URI."""
        if not values.keys() >= set(self.variables):
            return None
        segments = [_VARIABLE.sub(lambda match: values[match[1]], segment) for segment in self.segments]
        if sum(map(len, segments)) > MAX_URI_LENGTH:
            return None  # before anybody looks at each character of it
        try:
            return SkillUri.build(segments, scheme=self.scheme).child(SKILL_MD)
        except UriError:
            return None


class Templates:
    """The templates of one server. Where a skill is published, its directory belongs to it and to no template."""

    def __init__(self) -> None:
        self._templates: dict[str, _Template] = {}

    def __len__(self) -> int:
        return len(self._templates)

    def add(
        self,
        path: str,
        function: TemplateFunction,
        *,
        complete: Complete | None = None,
        description: str | None = None,
        scheme: str = "skill",
    ) -> None:
        """Publish what a function of a template's variables makes; a `ValueError` says what is wrong with it."""
        template = _parse(path, function, complete or {}, description, scheme)
        if template.uri in self._templates:
            raise ValueError(f"{template.uri} has a function already.")
        self._templates[template.uri] = template

    def include(self, other: Templates) -> None:
        """Publish another's templates too."""
        for uri, template in other._templates.items():
            if uri in self._templates:
                raise ValueError(f"{uri} has a function already.")
            self._templates[uri] = template

    def index_entries(self) -> list[dict[str, Any]]:
        """The templates as entries of `skill://index.json` (I2); without a name, which the values give."""
        return [
            {"type": TEMPLATE, "description": each.description, "url": each.uri} for each in self._templates.values()
        ]

    def resource_templates(self) -> dict[str, Any]:
        """Our part of `resources/templates/list`."""
        listed = [
            {"uriTemplate": each.uri, "name": each.name, "description": each.description, "mimeType": MARKDOWN}
            for each in self._templates.values()
        ]
        return {"resourceTemplates": listed}

    def reads(self, text: str) -> bool:
        """True for a template, and for a URI that one of them may make a skill at."""
        if text in self._templates:
            return True
        try:
            return self._match(SkillUri(text)) is not None
        except UriError:
            return False

    async def get_skill(
        self, publisher: Publisher, ctx: ServerRequestContext[Any, Any], text: str
    ) -> dict[str, Any] | None:
        """`skills/get` of a skill that a template makes; None when this is none. It is not in `skills/list` (L3)."""
        made = await self._make(publisher, ctx, text)
        if made is None or made[0].listed.uri.key != SkillUri(text).key:
            return None
        return publisher.finished(ctx, {"skill": made[0].listed.to_json()}, ttl=0)

    async def read(
        self, publisher: Publisher, ctx: ServerRequestContext[Any, Any], uri: SkillUri
    ) -> dict[str, Any] | None:
        """`resources/read` of a file that a template makes; None when this is none."""
        made = await self._make(publisher, ctx, uri)
        if made is None or (record := made[0].manifest.find(uri)) is None:
            return None
        return publisher.finished(ctx, read_result(uri, uri.name, made[0].files[record.uri]), ttl=0)

    async def read_directory(
        self, publisher: Publisher, ctx: ServerRequestContext[Any, Any], text: str, cursor: str | None
    ) -> dict[str, Any] | None:
        """`resources/directory/read` in a skill that a template makes; None when this is none."""
        made = await self._make(publisher, ctx, text)
        if made is None:
            return None
        generation, view = made
        nodes = find_children([generation.as_files], uri := SkillUri(text))
        if nodes is None:
            return None
        files = generation.files
        view = replace(view, catalog=Catalog([generation.listed]))
        page = view.page_of(nodes, uri, cursor, lambda record: files.get(record.uri))
        return publisher.finished(ctx, page, hints=False)

    async def complete(self, publisher: Publisher, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any] | None:
        """`completion/complete` for our templates; None when it is about something else."""
        raw = ctx.params or {}
        reference = raw.get("ref")
        if not isinstance(reference, Mapping) or reference.get("type") != "ref/resource":
            return None
        uri = reference.get("uri")
        template = self._templates.get(uri) if isinstance(uri, str) else None
        if template is None:
            return None
        try:
            params = CompleteRequestParams.model_validate(raw, by_name=False)
        except ValidationError:
            raise MCPError(code=INVALID_PARAMS, message=_NO_ARGUMENT) from None
        asked = params.argument
        if asked.name not in template.variables:
            message = f'The template has no variable "{shorten(asked.name)}".'
            raise MCPError(code=INVALID_PARAMS, message=message)
        values = await _values(template.complete.get(asked.name, ()), asked.value, publisher)
        fitting = [value for value in values if value.startswith(asked.value)]
        completion: dict[str, Any] = {"values": fitting[:_MOST_VALUES]}
        if publisher.is_for_everybody:
            completion |= {"total": len(fitting), "hasMore": len(fitting) > _MOST_VALUES}
        else:
            others = (params.context.arguments if params.context else None) or {}
            given = {name: others[name] for name in template.variables if name in others}
            places = {value: template.build({**given, asked.name: value}) for value in completion["values"]}
            completion["values"] = await self._seen(publisher, await publisher.view(ctx), places)
        return publisher.finished(ctx, {"completion": completion}, hints=False)

    async def _seen(self, publisher: Publisher, view: View, places: Mapping[str, SkillUri | None]) -> list[str]:
        """Those values at which there is a skill that an asker may see, as far as can be found out in a while.

        How many others there are is not told. Where other variables have no value yet, no value is offered.
        """
        seen: list[str] = []
        with anyio.move_on_after(_LOOKING):
            for value, uri in places.items():
                await anyio.lowlevel.checkpoint()
                if uri is not None and await self._is_seen(publisher, view, uri):
                    seen.append(value)
        return seen

    async def _is_seen(self, publisher: Publisher, view: View, uri: SkillUri) -> bool:
        if any(view.catalog.around(uri)):
            return view.skill(uri) is not None
        try:
            generation = await self._generate(publisher, uri)
        except Exception:  # noqa: BLE001 - the author's function may raise anything; who reads the skill is told
            return False
        return generation is not None and _may_see(view, generation)

    def _match(self, uri: SkillUri) -> tuple[_Template, SkillUri, dict[str, str]] | None:
        for template in self._templates.values():
            if found := template.match(uri):
                return template, *found
        return None

    async def _make(
        self, publisher: Publisher, ctx: ServerRequestContext[Any, Any], text: str
    ) -> tuple[Generation, View] | None:
        """The skill at or around a URI, if a template makes one that this asker may see."""
        try:
            uri = SkillUri(text)
        except UriError:
            return None
        if self._match(uri) is None:
            return None
        view = await publisher.view(ctx)
        if any(view.catalog.around(uri)):
            return None
        generation = await self._generate(publisher, uri)
        return (generation, view) if generation is not None and _may_see(view, generation) else None

    async def _generate(self, publisher: Publisher, uri: SkillUri) -> Generation | None:
        """The skill that a template makes at or around a URI, whoever asks."""
        if (found := self._match(uri)) is None:
            return None
        template, root, values = found
        try:
            content = await called(partial(template.function, **values), publisher.function_threads)
        except LookupError:
            return None  # the function knows no such skill
        return check_generated(root, content)


def _may_see(view: View, generation: Generation) -> bool:
    return view.where is None or view.where(generation.listed.entry)


async def complete_otherwise(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Completion that is the server's own affair; one that has none of its own knows nothing to complete."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        if error.error.code != METHOD_NOT_FOUND:
            raise
        raise MCPError(code=INVALID_PARAMS, message=_NO_COMPLETION) from None


async def _values(known: Values, typed: str, publisher: Publisher) -> Sequence[str]:
    """The values of a variable, however its author gives them."""
    if not callable(known):
        return known
    if inspect.iscoroutinefunction(known):
        values: object = await known(typed)
    else:
        values = await anyio.to_thread.run_sync(known, typed, limiter=publisher.function_threads)
        values = await values if isinstance(values, Awaitable) else values
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(each, str) for each in values):
        raise TypeError("A function for completion gave back something other than a list of strings.")
    return values


def _parse(
    path: str, function: TemplateFunction, complete: Complete, description: str | None, scheme: str
) -> _Template:
    segments = tuple(path.strip("/").split("/"))
    variables: list[str] = []
    for segment in segments:
        if variable := _VARIABLE.fullmatch(segment):
            variables.append(variable[1])
        elif "{" in segment or "}" in segment:
            raise ValueError(
                f'"{shorten(path)}" is not a template that can be used: "{shorten(segment)}" is neither plain text nor '
                "one {variable}. Give each variable a segment of its own, such as docs/{product}."
            )
    if len(set(variables)) < len(variables):
        raise ValueError(f'"{shorten(path)}" has the same variable twice.')
    literal = segments[-1]
    if not _VARIABLE.fullmatch(literal) and (problem := name_problem(literal)):
        raise ValueError(f'The last segment of "{shorten(path)}" is the skill\'s name, and {problem}.')
    try:
        stand_in = SkillUri.build([_VARIABLE.sub("x", segment) for segment in segments], scheme=scheme)
    except UriError as error:
        raise ValueError(f'"{shorten(path)}" cannot be a template: {error.message}') from None
    written = stand_in.partition("://")[2].split("/")
    shown = [
        segment if _VARIABLE.fullmatch(segment) else plain for segment, plain in zip(segments, written, strict=True)
    ]
    try:
        inspect.signature(function).bind(**dict.fromkeys(variables, ""))
    except (TypeError, ValueError):
        raise ValueError(f'The function of "{shorten(path)}" must take {", ".join(variables)}.') from None
    for name, values in complete.items():
        if name not in variables:
            raise ValueError(f'"{shorten(path)}" has no variable "{shorten(name)}" to complete.')
        is_list = not isinstance(values, str) and isinstance(values, Sequence)
        if not callable(values) and not (is_list and all(isinstance(each, str) for each in values)):
            raise ValueError(f'complete["{shorten(name)}"] is a list of strings, or a function that gives one.')
    first_line = (inspect.getdoc(function) or "").strip().partition("\n")[0]
    return _Template(
        uri=f"{scheme}://{'/'.join(shown)}/{SKILL_MD}",
        name=path.strip("/"),
        description=description or first_line or f"Skills at {path.strip('/')}.",
        scheme=scheme,
        segments=segments,
        function=function,
        complete=complete,
    )
