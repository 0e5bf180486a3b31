"""Who answers for a person, and that nothing but a yes is a yes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from skillquay.core.changes import ManifestChange
from skillquay.core.identity import ServerLabel
from skillquay.core.questions import About, Question, Reply
from skillquay.errors import RefusedError
from skillquay.host.approver import Approver, CallbackApprover, NobodyToAsk, PolicyApprover
from tests.core.builders import ACME, publish
from tests.host.scripted import Person, Scripted, hosting

if TYPE_CHECKING:
    from pathlib import Path

    from skillquay.host.approver import Inspect

pytestmark = pytest.mark.anyio

SKILL = publish({"a.md": b"alpha"})


async def no_content(path: str) -> str:
    raise AssertionError(path)


def question(
    at: str = "skill://billing/refunds",
    *,
    about: About = About.LOAD,
    server: ServerLabel = ACME,
    change: ManifestChange | None = None,
    dynamic: bool = False,
) -> Question:
    skill = publish(at=at, dynamic=dynamic)
    return Question(
        about=about, text="?", skill=skill.id(server), entry=skill.entry, change=change, can_be_kept=not dynamic
    )


async def test_where_nobody_is_there_nothing_is_approved() -> None:
    assert await NobodyToAsk().ask(question(), no_content) is Reply.LATER


async def test_a_program_answers_by_a_function_of_either_kind() -> None:
    async def later(_: Question) -> Reply:
        return Reply.ONCE

    assert await CallbackApprover(lambda _: Reply.KEEP).ask(question(), no_content) is Reply.KEEP
    assert await CallbackApprover(later).ask(question(), no_content) is Reply.ONCE


@pytest.mark.rule("O5")
@pytest.mark.parametrize("said", [None, True, 1, "keep", "once", "allow", ["keep"]], ids=str)
async def test_whatever_is_not_a_reply_is_never_a_yes(tmp_path: Path, said: Any) -> None:
    assert await CallbackApprover(lambda _: said).ask(question(), no_content) is Reply.LATER

    class Careless(Approver):
        async def ask(self, question: Question, inspect: Inspect) -> Reply:
            reply: Reply = said
            return reply

    server, other = Scripted(SKILL), Scripted()
    async with hosting(tmp_path, {"acme": server, "other": other}, Careless()) as host:
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
        assert await host.people.ask_about_server("acme") == {"refunds": Reply.LATER}
        assert server.reads == []
    async with hosting(tmp_path, {"acme": server, "other": other}, Person(Reply.ONCE)) as host:
        await host.read_skill("refunds")
        host.consent._approver = Careless()
        assert not (await host.may_execute("bash", {})).allowed
        with pytest.raises(RefusedError):
            await host.read_resource("other", "docs://x")
        assert other.reads == []


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("acme:*", True),
        ("acme:billing/refunds", True),
        ("acme:billing/*", True),
        ("acme:skill://billing/*", True),
        ("*", True),
        ("acme:refunds", False),
        ("acme", False),
        ("ACME:*", False),
        ("other:*", False),
        ("acme:billing", False),
        ("", False),
    ],
)
async def test_patterns_name_a_server_and_a_path_or_uri(pattern: str, matches: bool) -> None:
    allowing, denying = PolicyApprover(allow=[pattern]), PolicyApprover(allow=["*"], deny=[pattern])
    assert await allowing.ask(question(), no_content) is (Reply.KEEP if matches else Reply.LATER)
    assert await denying.ask(question(), no_content) is (Reply.DENY if matches else Reply.KEEP)


@pytest.mark.rule("N1")
@pytest.mark.parametrize("pattern", ["acme:skill://billing/*", "acme:SKILL://b%69lling/*", "acme:billing/refunds"])
@pytest.mark.parametrize("at", ["SKILL://billing/refunds", "skill://b%69lling/refunds", "skill://billing/%72efunds"])
async def test_no_spelling_of_a_uri_passes_a_rule_about_it(pattern: str, at: str) -> None:
    policy = PolicyApprover(allow=["*"], deny=[pattern])
    assert await policy.ask(question(at), no_content) is Reply.DENY
    assert await PolicyApprover(allow=[pattern]).ask(question(at), no_content) is Reply.KEEP


@pytest.mark.rule("N1")
async def test_what_is_encoded_in_a_pattern_stands_for_itself() -> None:
    policy = PolicyApprover(allow=["acme:skill://a%2Ab/refunds/*", "acme:skill://100%25/*"])
    assert await policy.ask(question("skill://a%2Ab/refunds"), no_content) is Reply.KEEP
    assert await policy.ask(question("skill://100%25/refunds"), no_content) is Reply.KEEP
    assert await policy.ask(question("skill://aXb/refunds"), no_content) is Reply.LATER
    assert await policy.ask(question("skill://a%252Ab/refunds"), no_content) is Reply.LATER


@pytest.mark.rule("N1")
async def test_a_path_allows_under_the_scheme_of_skills_only_and_denies_under_any() -> None:
    elsewhere = question("github://billing/refunds")
    for pattern in ("acme:billing/refunds", "acme:billing/*", "acme:*/refunds", "*:billing/refunds"):
        assert await PolicyApprover(allow=[pattern]).ask(elsewhere, no_content) is Reply.LATER
        assert await PolicyApprover(allow=["*"], deny=[pattern]).ask(elsewhere, no_content) is Reply.DENY
    for pattern in ("acme:*", "acme:github://billing/*", "acme:*://billing/*", "*"):
        assert await PolicyApprover(allow=[pattern]).ask(elsewhere, no_content) is Reply.KEEP


@pytest.mark.rule("N1")
async def test_a_label_is_compared_whole() -> None:
    for label in ("acme:evil", "acme:skill", "ACME", "acm", "acmee", "*", "[acme]"):
        other = question(server=ServerLabel(label=label, scope="workspace"))
        for pattern in ("acme:*", "acme:evil:*", "acme:skill://billing/*", "acm?:*", "ac*:*"):
            assert await PolicyApprover(allow=[pattern]).ask(other, no_content) is Reply.LATER
        assert await PolicyApprover(allow=["*:billing/refunds"]).ask(other, no_content) is Reply.KEEP
        assert await PolicyApprover(allow=["*"], deny=[f"{label}:*"]).ask(other, no_content) is Reply.DENY
        assert await PolicyApprover(allow=["*"], deny=[f"{label}:billing/*"]).ask(other, no_content) is Reply.DENY
    assert await PolicyApprover(allow=["*"], deny=["ac*:billing/*"]).ask(question(), no_content) is Reply.DENY


@pytest.mark.rule("N1")
@pytest.mark.parametrize(
    ("wanted", "scope", "is_within"),
    [
        (None, "/home/.mcp.json", True),
        ("/home", "/home/.mcp.json", True),
        ("/home/", "/home/.mcp.json", True),
        ("/home/.mcp.json", "/home/.mcp.json", True),
        ("/home", "/home-evil/.mcp.json", False),
        ("/home", "/other/home/.mcp.json", False),
        ("given in code", "given in code: example.com #0123", True),
        ("given in code", "/home/.mcp.json", False),
        ("in this process", "in this process", True),
        ("", "/home/.mcp.json", False),
    ],
)
async def test_rules_with_a_scope_hold_for_servers_configured_there(
    wanted: str | None, scope: str, is_within: bool
) -> None:
    asked = question(server=ServerLabel(label="acme", scope=scope))
    for rules in ({"trust": ["acme"]}, {"allow": ["acme:*"]}):
        policy = PolicyApprover(**rules, scope=wanted)  # type: ignore[arg-type]
        assert await policy.ask(asked, no_content) is (Reply.KEEP if is_within else Reply.LATER)
    policy = PolicyApprover(deny=["acme:*"], scope=wanted, otherwise=PolicyApprover(allow=["*"]))
    assert await policy.ask(asked, no_content) is (Reply.DENY if is_within else Reply.KEEP)


@pytest.mark.rule("E6")
async def test_generated_skills_are_declined_by_rules_unless_they_say_otherwise() -> None:
    generated = question(dynamic=True)
    assert await PolicyApprover(allow=["*"]).ask(generated, no_content) is Reply.DENY
    assert await PolicyApprover(allow=["*"], dynamic=True).ask(generated, no_content) is Reply.ONCE
    assert await PolicyApprover(trust=["acme"], dynamic=True).ask(generated, no_content) is Reply.LATER


@pytest.mark.rule("A2")
async def test_a_trusted_server_is_asked_about_again_when_a_skill_changed() -> None:
    person = Person(otherwise=Reply.DENY)
    policy = PolicyApprover(trust=["acme"], otherwise=person)
    assert await policy.ask(question(), no_content) is Reply.KEEP
    assert await policy.ask(question(change=ManifestChange(added=("x",))), no_content) is Reply.DENY
    assert await policy.ask(question(change=ManifestChange()), no_content) is Reply.DENY
    assert len(person.asked) == 2


@pytest.mark.rule("O5")
@pytest.mark.rule("X1")
@pytest.mark.parametrize("about", [About.EXECUTE, About.TOOLS, About.READ])
async def test_rules_answer_for_loading_only(about: About) -> None:
    policy = PolicyApprover(allow=["*"], trust=["acme"], dynamic=True)
    assert await policy.ask(question(about=about), no_content) is Reply.LATER
    person = Person(otherwise=Reply.ONCE)
    assert await PolicyApprover(deny=["*"], otherwise=person).ask(question(about=about), no_content) is Reply.ONCE


async def test_a_whole_list_is_answered_one_by_one_unless_there_is_a_better_way() -> None:
    person = Person(Reply.KEEP, Reply.DENY, otherwise=Reply.LATER)
    asked = [question(f"skill://{name}") for name in ("one", "two", "three")]
    assert await person.ask_all(asked, lambda _: no_content) == [Reply.KEEP, Reply.DENY, Reply.LATER]
    assert person.asked == asked


@pytest.mark.rule("A2")
async def test_rules_in_a_host_keep_answers_and_a_change_is_no_first_sight(tmp_path: Path) -> None:
    server = Scripted(SKILL)
    async with hosting(tmp_path, {"acme": server}, PolicyApprover(trust=["acme"])) as host:
        await host.read_skill("refunds")
        host.release("refunds")
        server.publish(publish({"a.md": b"changed"}))
        await host.refresh(anew=True)
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")


@pytest.mark.rule("A5")
async def test_a_program_can_look_at_a_file_before_it_answers_and_a_plain_function_does_not_hold_up_the_rest() -> None:
    seen: list[str] = []

    async def look(question: Question, inspect: Inspect) -> Reply:
        seen.append(await inspect("SKILL.md"))
        return Reply.ONCE

    async def content(path: str) -> str:
        return f"the text of {path}"

    main = threading.get_ident()
    threads: list[int] = []

    def wait_for_somebody(question: Question) -> Reply:
        threads.append(threading.get_ident())
        return Reply.DENY

    assert await CallbackApprover(look).ask(question(), content) is Reply.ONCE
    assert seen == ["the text of SKILL.md"]
    assert await CallbackApprover(wait_for_somebody).ask(question(), content) is Reply.DENY
    assert main not in threads
