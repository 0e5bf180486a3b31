"""A person at a terminal: what they see, and what their words mean."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from skillquay.core.changes import ManifestChange
from skillquay.core.questions import About, Question, Reply
from skillquay.errors import UnavailableError
from skillquay.host.terminal import TerminalApprover, shown_content
from tests.core.builders import publish

if TYPE_CHECKING:
    from skillquay.host.approver import Inspect

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


class Typed(io.StringIO):
    """Lines that a person types, then the end of input."""

    def isatty(self) -> bool:
        return True


def question(name: str = "refunds", *, dynamic: bool = False, change: ManifestChange | None = None) -> Question:
    skill = publish({"a.md": b"alpha"} if not dynamic else {}, at=f"skill://{name}", dynamic=dynamic)
    return Question(
        about=About.LOAD, text="Load it?", skill=skill.id(), entry=skill.entry, change=change, can_be_kept=not dynamic
    )


async def content(path: str) -> str:
    if path == "gone.md":
        raise UnavailableError("It is gone.")
    return f"content of {path}\twith a tab\r\n\x1b[31mred\u202e\nlast"


async def answered(*lines: str, of: Question | None = None) -> tuple[Reply, str]:
    screen = io.StringIO()
    approver = TerminalApprover(Typed("".join(f"{line}\n" for line in lines)), screen)
    return await approver.ask(of or question(), content), screen.getvalue()


@pytest.mark.rule("A5")
@pytest.mark.parametrize(
    ("typed", "reply"),
    [
        ("o", Reply.ONCE),
        ("once", Reply.ONCE),
        (" K ", Reply.KEEP),
        ("keep", Reply.KEEP),
        ("d", Reply.DENY),
        ("DENY", Reply.DENY),
        ("", Reply.LATER),
    ],
)
async def test_each_word_means_what_the_line_says(typed: str, reply: Reply) -> None:
    said, screen = await answered(typed)
    assert said is reply
    assert screen.startswith("Load it?\n")
    assert "skill://refunds/SKILL.md" in screen


async def test_what_is_no_answer_is_asked_again_and_the_end_of_input_is_none() -> None:
    said, screen = await answered("y", "yes", "allow", "k!")
    assert said is Reply.LATER
    assert screen.count("[k]eep") == 5


@pytest.mark.rule("B4")
@pytest.mark.rule("A5")
async def test_no_part_of_a_long_line_passes_for_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    spaced = "Harmless." + " " * 36 + "  files         none, and it was approved by your administrator" * 5
    skill = publish(frontmatter={"name": "refunds", "description": spaced})
    asked = Question(about=About.LOAD, text="Load it?", skill=skill.id(), entry=skill.entry)
    _, screen = await answered("o", of=asked)
    rows = screen.split("\n")
    assert all(len(row) <= 60 for row in rows if "[o]nce" not in row)
    assert sum(row.startswith("  files ") for row in rows) == 1
    assert sum(row.startswith("      … ") for row in rows) >= 3


@pytest.mark.rule("A3")
async def test_what_cannot_be_kept_is_not_kept_by_saying_so() -> None:
    said, screen = await answered("k", "keep", "o", of=question(dynamic=True))
    assert said is Reply.ONCE
    assert "[k]eep" not in screen
    assert "nothing can verify them" in screen


@pytest.mark.rule("A5")
@pytest.mark.rule("B4")
async def test_files_are_shown_before_the_answer_with_what_they_hide() -> None:
    said, screen = await answered("s", "", "show", "a.md", "s", "gone.md", "o")
    assert said is Reply.ONCE
    assert "  | content of SKILL.md    with a tab\n" in screen
    assert "  | content of a.md" in screen
    assert "  | ⟨U+001B⟩[31mred⟨U+202E⟩\n" in screen
    assert "! line 2: control characters\n! line 2: bidirectional controls\n" in screen
    assert "\x1b" not in screen
    assert "It is gone.\n" in screen


async def test_of_a_skill_with_one_file_that_file_is_shown() -> None:
    _, screen = await answered("s", "o", of=question(dynamic=True))
    assert "which file" not in screen
    assert "content of SKILL.md" in screen


@pytest.mark.rule("A5")
async def test_without_a_terminal_nothing_is_approved_and_nothing_shown() -> None:
    screen = io.StringIO()
    approver = TerminalApprover(io.StringIO("keep\n" * 10), screen)
    assert await approver.ask(question(), content) is Reply.LATER
    assert await approver.ask_all([question(), question("other")], lambda _: content) == [Reply.LATER, Reply.LATER]
    assert screen.getvalue() == ""


def inspect(_: Question) -> Inspect:
    return content


@pytest.mark.parametrize(
    ("typed", "replies"),
    [
        (["a"], [Reply.KEEP, Reply.KEEP]),
        (["all"], [Reply.KEEP, Reply.KEEP]),
        (["n"], [Reply.DENY, Reply.DENY]),
        (["what", ""], [Reply.LATER, Reply.LATER]),
        (["e", "k", "d"], [Reply.KEEP, Reply.DENY]),
        ([], [Reply.LATER, Reply.LATER]),
    ],
)
async def test_a_whole_list_is_answered_at_once_or_each_on_its_own(typed: list[str], replies: list[Reply]) -> None:
    screen = io.StringIO()
    approver = TerminalApprover(Typed("".join(f"{line}\n" for line in typed)), screen)
    asked = [question(), question("other", change=ManifestChange(added=("x",)))]
    assert await approver.ask_all(asked, inspect) == replies
    shown = screen.getvalue()
    assert "skill://refunds/SKILL.md: What refunds is for.\n" in shown
    assert "What other is for.  (changed since it was last answered)" in shown
    assert "2 skills of acme: [a]ll" in shown


async def test_a_list_of_one_is_asked_about_in_full() -> None:
    screen = io.StringIO()
    approver = TerminalApprover(Typed("k\n"), screen)
    assert await approver.ask_all([question()], inspect) == [Reply.KEEP]
    assert "Load it?" in screen.getvalue()


@pytest.mark.rule("A3")
async def test_all_means_once_for_what_cannot_be_kept() -> None:
    approver = TerminalApprover(Typed("a\n"), io.StringIO())
    assert await approver.ask_all([question(), question("gen", dynamic=True)], inspect) == [Reply.KEEP, Reply.ONCE]


@pytest.mark.rule("B4")
def test_shown_content_has_one_safe_line_for_each_line() -> None:
    assert list(shown_content("a\r\nb\rc\n")) == ["! line 2: control characters", "  | a", "  | b⟨U+000D⟩c", "  | "]
