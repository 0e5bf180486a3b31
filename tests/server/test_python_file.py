"""A `Skills` object from a Python file: taken as it is, or a sentence that says why not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from skillquay.server.extension import Skills
from skillquay.server.python_file import PythonFileError, is_python, load_skills
from skillquay.server.run import Settings
from tests.server.asking import MODERN, asking, write_skill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = """
from dataclasses import dataclass
from skillquay.server.extension import Skills

@dataclass
class Something:
    x: int

skills = Skills()

@skills.skill("made")
def made():
    return "---\\nname: made\\ndescription: Made.\\n---\\n"

number = 5
"""


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("path", ["skills.py:skills", "/a/b.py:_x1", "a b.py:x"])
def test_an_object_in_a_file_is_named_with_a_colon(path: str) -> None:
    assert is_python(path)


@pytest.mark.parametrize(
    "path", ["skills.py", "skills", "skills.py:", "skills.py:1x", "skills.txt:x", ".py:", ":x", ""]
)
def test_everything_else_is_a_path(path: str) -> None:
    assert not is_python(path)


def test_the_object_is_taken_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_skills.py").write_text(GOOD)
    assert isinstance(load_skills(f"{tmp_path}/my_skills.py:skills"), Skills)
    monkeypatch.chdir(tmp_path)
    assert isinstance(load_skills("my_skills.py:skills"), Skills)


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (GOOD, "gone", 'has no Skills object named "gone"'),
        (GOOD, "number", 'has no Skills object named "number"'),
        (GOOD, "Skills", 'has no Skills object named "Skills"'),
        ("x = 1\nskills = (\n", "skills", "SyntaxError"),
        ("x = 1\nimport nothing_of_this_name\n", "skills", r"No module named 'nothing_of_this_name' \(line 2\)"),
        ("def f():\n    return 1 / 0\n\nf()\n", "skills", r"ZeroDivisionError: division by zero \(line 2\)"),
        (
            "from skillquay.server.extension import Skills\nskills = Skills('gone')\n",
            "skills",
            r"is not a directory.*\(line 2\)",
        ),
    ],
)
@pytest.mark.parametrize("is_relative", [True, False])
def test_what_is_wrong_with_a_file_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str, message: str, is_relative: bool
) -> None:
    (tmp_path / "my_skills.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    file = "my_skills.py" if is_relative else f"{tmp_path}/my_skills.py"
    with pytest.raises(PythonFileError, match=message) as failure:
        load_skills(f"{file}:{name}")
    assert str(failure.value).startswith(f'"{file}" ')


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PythonFileError, match=r'there is no file ".*gone\.py"'):
        load_skills(f"{tmp_path}/gone.py:skills")


@pytest.mark.anyio
async def test_a_served_file_hides_what_it_would_hide_itself(tmp_path: Path) -> None:
    write_skill(tmp_path, "root/secret")
    (tmp_path / "my_skills.py").write_text(
        "from skillquay.server.extension import Skills\n"
        f"skills = Skills({str(tmp_path / 'root')!r}, watch=False, visible=lambda ctx: lambda entry: False)\n"
    )
    server, skills = Settings(paths=(f"{tmp_path}/my_skills.py:skills",), watch=False).make()
    async with asking(server, MODERN) as asker:
        assert await asker.skills() == []
        assert (await asker.refusal("skills/get", {"uri": "skill://secret/SKILL.md"})).code == -32602
    skills.close()
