"""The parameters of the methods: what is needed must be there and be text, and what is more is let pass."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from skillquay.wire.params import GetSkillParams, ListSkillsParams, ReadDirectoryParams


@pytest.mark.rule("L1", "G1", "D1")
def test_parameters_are_read_as_they_travel() -> None:
    assert ListSkillsParams.model_validate({}).cursor is None
    assert ListSkillsParams.model_validate({"cursor": "x", "more": 1, "_meta": {"progressToken": 1}}).cursor == "x"
    assert GetSkillParams.model_validate({"uri": "skill://a/SKILL.md", "more": {}}).uri == "skill://a/SKILL.md"
    directory = ReadDirectoryParams.model_validate({"uri": "skill://a", "cursor": "x"})
    assert (directory.uri, directory.cursor) == ("skill://a", "x")
    assert ReadDirectoryParams.model_validate({"uri": "", "cursor": None}).cursor is None


@pytest.mark.rule("B3")
@pytest.mark.parametrize("kind", [GetSkillParams, ReadDirectoryParams])
@pytest.mark.parametrize("params", [{}, {"uri": None}, {"uri": 5}, {"uri": ["x"]}, {"Uri": "x"}])
def test_a_uri_is_a_text(kind: type[GetSkillParams | ReadDirectoryParams], params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind.model_validate(params)


@pytest.mark.rule("B3")
@pytest.mark.parametrize("cursor", [5, True, [], {}, 1.5])
def test_a_cursor_is_a_text(cursor: object) -> None:
    with pytest.raises(ValidationError):
        ListSkillsParams.model_validate({"cursor": cursor})
    with pytest.raises(ValidationError):
        ReadDirectoryParams.model_validate({"uri": "skill://a", "cursor": cursor})
