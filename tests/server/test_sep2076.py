"""An endpoint of SEP-2076: skills by name, with what they depend on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ListToolsResult, PaginatedRequestParams, Tool

from skillquay.server.extension import Skills
from tests.server.asking import MODERN, OLDER, asking, low_level, mcp_server, rewrite, write_skill

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from tests.server.asking import Asker
    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent / "golden"
PDF = (
    "title: PDF Form Filling",
    "metadata: {version: 1.0.0, tags: 'documents, pdf'}",
    "arguments: [{name: document_type, description: 'Type of PDF form.', required: true}, {name: locale}]",
    "dependencies: {tools: [read_pdf], prompts: [ask], resources: ['skill://plain/SKILL.md', 'config://app']}",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_skill(tmp_path, "pdf-forms", {"docs/forms.md": b"# Forms\n", "a b.bin": b"\xff\x00"}, *PDF)
    write_skill(tmp_path, "plain")
    return tmp_path


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def rich(skills: Skills) -> MCPServer:
    """A server that has all that the skill about PDF depends on."""
    server = mcp_server(skills)
    server.tool(name="read_pdf")(lambda: "read")
    server.prompt(name="ask")(lambda: "ask")
    server.resource("config://{name}", name="config")(lambda name: name)
    return server


def plainly(result: dict[str, Any], version: str) -> dict[str, Any]:
    """An answer without what the current revision puts on every answer."""
    if version == MODERN:
        assert result.pop("resultType") == "complete"
        assert result.pop("_meta")["io.modelcontextprotocol/serverInfo"]["name"] == "acme"
        assert result.pop("cacheScope") in {"public", "private"}
        result.pop("ttlMs")
    return result


async def names(asker: Asker) -> list[str]:
    return [each["name"] for each in await asker.listing()]


# Payloads


@pytest.mark.rule("I7", "I14")
async def test_the_payloads_are_those_of_the_golden_files(root: Path, publish: Publish, version: str) -> None:
    async with asking(rich(publish(root, dialect="sep-2076")), version) as asker:
        listed = await asker.ask("skills/list")
        assert plainly(listed, version) == golden("sep-2076-list.json")
        for name, arguments in (("pdf-forms", {"document_type": "tax"}), ("plain", {})):
            got = await asker.ask("skills/get", {"name": name, "arguments": arguments})
            assert plainly(got, version) == golden(f"sep-2076-get-{name}.json")


@pytest.mark.rule("I7")
async def test_every_file_of_a_skill_can_be_read_where_it_says(root: Path, publish: Publish, version: str) -> None:
    async with asking(rich(publish(root, dialect="sep-2076")), version) as asker:
        got = await asker.ask("skills/get", {"name": "pdf-forms", "arguments": {"document_type": "tax"}})
        for file in got["files"]:
            (contents,) = (await asker.ask("resources/read", {"uri": file["uri"]}))["contents"]
            assert contents["mimeType"] == file["mimeType"]
        assert await asker.text("skill://pdf-forms/docs/forms.md") == "# Forms\n"


@pytest.mark.rule("I7")
async def test_an_endpoint_speaks_one_of_the_two(root: Path, publish: Publish, make: Make, version: str) -> None:
    async with asking(make(publish(root, dialect="sep-2076")), version) as asker:
        assert asker.capabilities.extensions in (None, {})
        assert (await asker.refusal("resources/directory/read", {"uri": "skill://plain"})).code == -32601
        assert (await asker.refusal("skills/get", {"uri": "skill://plain/SKILL.md"})).code == -32602
        assert "No resource" in (await asker.refusal("resources/read", {"uri": "skill://index.json"})).message
    async with asking(make(publish(root)), version) as asker:
        assert asker.capabilities.extensions == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
        assert (await asker.refusal("skills/get", {"name": "plain"})).code == -32602


async def test_there_is_no_third_dialect(root: Path) -> None:
    with pytest.raises(ValueError, match=r"dialect is one of v1, sep-2076\."):
        Skills(root, dialect="sep-1")  # type: ignore[arg-type]


async def test_without_the_middleware_the_methods_say_what_is_missing(root: Path, publish: Publish) -> None:
    server = MCPServer("acme", extensions=[publish(root, dialect="sep-2076")])
    async with asking(server, MODERN) as asker:
        for method, params in (("skills/list", {}), ("skills/get", {"name": "plain"})):
            assert "Pass middleware=[skills.middleware]" in (await asker.refusal(method, params)).message


# Names


@pytest.mark.rule("I7")
async def test_of_several_skills_of_one_name_the_first_is_served_and_the_operator_is_told(
    tmp_path: Path, publish: Publish, make: Make, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    for path in ("b/same", "a/same", "c/same", "other"):
        write_skill(tmp_path, path, {"where.md": path.encode()})
    async with asking(make(publish(tmp_path, dialect="sep-2076", page_size=1)), version) as asker:
        assert await names(asker) == ["same", "other"]
        (file,) = (await asker.ask("skills/get", {"name": "same"}))["files"]
        assert await asker.text(file["uri"]) == "a/same"
        await names(asker)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == (
        '3 skills are named "same", and a name is all that SEP-2076 asks for: skill://a/same/SKILL.md is served, '
        "skill://b/same/SKILL.md, skill://c/same/SKILL.md not."
    )


@pytest.mark.rule("I7")
async def test_whoever_may_not_see_the_first_of_a_name_gets_the_next(
    tmp_path: Path, publish: Publish, version: str
) -> None:
    for path in ("a/same", "b/same", "hidden"):
        write_skill(tmp_path, path, {"where.md": path.encode()})
    hidden = {"skill://a/same/SKILL.md", "skill://hidden/SKILL.md"}
    skills = publish(
        tmp_path, dialect="sep-2076", page_size=1, visible=lambda ctx: lambda entry: entry.uri not in hidden
    )
    async with asking(low_level(skills), version) as asker:
        assert await names(asker) == ["same"]
        (file,) = (await asker.ask("skills/get", {"name": "same"}))["files"]
        assert file["uri"] == "skill://b/same/where.md"
        assert (await asker.refusal("skills/get", {"name": "hidden"})).code == -32602


@pytest.mark.rule("I7")
async def test_the_list_comes_page_by_page(tmp_path: Path, publish: Publish, make: Make, version: str) -> None:
    expected = [f"s{number}" for number in range(5)]
    for name in expected:
        write_skill(tmp_path, name)
    async with asking(make(publish(tmp_path, dialect="sep-2076", page_size=2)), version) as asker:
        assert len((await asker.ask("skills/list"))["skills"]) == 2
        assert await names(asker) == expected
        for cursor in ("", "x", "ü", "A" * 100_000):
            assert (await asker.refusal("skills/list", {"cursor": cursor})).code == -32602


# Bad input


@pytest.mark.rule("I7", "B3")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 5},
        {"name": None},
        {"name": "gone"},
        {"name": ""},
        {"name": "x" * 1_000_000},
        {"name": "\u202e\ud7ff/../plain"},
        {"name": "plain", "arguments": []},
        {"name": "plain", "arguments": "a"},
        {"name": "plain", "arguments": {"a": 5}},
        {"name": "pdf-forms"},
        {"name": "pdf-forms", "arguments": {"locale": "de"}},
        {"name": "pdf-forms", "arguments": {"document_type": None}},
    ],
)
async def test_wrong_parameters_are_refused_as_such(root: Path, publish: Publish, params: dict[str, Any]) -> None:
    for version in (MODERN, OLDER[0]):
        async with asking(rich(publish(root, dialect="sep-2076")), version) as asker:
            assert (await asker.refusal("skills/get", params)).code == -32602


@pytest.mark.rule("I7")
async def test_arguments_beyond_the_declared_ones_do_no_harm(root: Path, publish: Publish, version: str) -> None:
    async with asking(low_level(publish(root, dialect="sep-2076")), version) as asker:
        for arguments in ({"other": "x"}, {}, None):
            got = await asker.ask("skills/get", {"name": "plain", "arguments": arguments})
            assert got["instructions"] == "Do plain.\n"
        assert (await asker.refusal("skills/list", {"cursor": 5})).code == -32602
        assert (await asker.refusal("skills/other")).code == -32601


# Dependencies


@pytest.mark.rule("I7")
@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("{tools: [read_pdf, gone]}", 'the tool "gone"'),
        ("{prompts: [{type: ref/prompt, name: gone}]}", 'the prompt "gone"'),
        ("{resources: ['gone://x']}", "the resource gone://x"),
        ("{resources: ['skill://plain/gone.md']}", "the resource skill://plain/gone.md"),
        ("{resources: ['skill://made/any.md', 'skill://docs/{x}/SKILL.md', 'skill://docs/one/a.md']}", None),
        ("{resources: ['config://{name}', 'config://x', 'plain://one'], prompts: [ask], tools: [read_pdf]}", None),
    ],
)
async def test_a_skill_that_depends_on_what_the_server_lacks_is_not_listed_and_the_operator_is_told(
    root: Path, publish: Publish, caplog: pytest.LogCaptureFixture, line: str, absent: str | None
) -> None:
    write_skill(root, "needy", None, f"dependencies: {line}")
    for version in (MODERN, OLDER[0]):
        caplog.clear()
        skills = publish(root, dialect="sep-2076")
        skills.skill("made")(lambda: "---\nname: made\ndescription: Made.\n---\n")
        skills.skill("docs/{x}")(lambda x: "")
        server = rich(skills)
        server.resource("plain://one", name="one")(lambda: "one")
        async with asking(server, version) as asker:
            found = await names(asker)
            assert ("needy" in found) is (absent is None)
            if absent is not None:
                assert (await asker.refusal("skills/get", {"name": "needy"})).code == -32602
        told = [record.getMessage() for record in caplog.records]
        expected = f"skill://needy/SKILL.md was not listed to a client: this server does not offer it {absent}."
        assert told == ([] if absent is None else [expected])


@pytest.mark.rule("I7")
async def test_the_servers_lists_are_asked_for_page_by_page_where_they_matter(root: Path, publish: Publish) -> None:
    asked: list[str | None] = []

    async def tools(_: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        cursor = params.cursor if params else None
        asked.append(cursor)
        number = int(cursor or 0)
        tool = Tool(name=f"tool-{number}", input_schema={"type": "object"})
        return ListToolsResult(tools=[tool], next_cursor=str(number + 1) if number < 2 else None)

    write_skill(root, "needy", None, "dependencies: {tools: [tool-0, tool-2]}")
    for version in (MODERN, OLDER[0]):
        asked.clear()
        server: Server[Any] = Server("acme", on_list_tools=tools)
        publish(root, dialect="sep-2076").install(server)
        async with asking(server, version) as asker:
            assert await names(asker) == ["needy", "plain"]
            assert (await asker.ask("skills/get", {"name": "needy"}))["dependencies"] == {"tools": ["tool-0", "tool-2"]}
            assert asked == [None, "1", "2"] * 2
            await asker.ask("skills/get", {"name": "plain"})
            await asker.refusal("skills/get", {"name": ["needy"]})
            await asker.refusal("skills/get", {"name": "gone"})
        assert asked == [None, "1", "2"] * 2


@pytest.mark.rule("I7")
async def test_what_one_asker_is_not_offered_hides_nothing_from_another(
    root: Path, publish: Publish, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def tools(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        client = ctx.session.client_params
        assert client is not None
        offered = ["rare"] if client.client_info.name == "trusted" else []
        return ListToolsResult(tools=[Tool(name=name, input_schema={"type": "object"}) for name in offered])

    write_skill(root, "needy", None, "dependencies: {tools: [rare]}")
    server: Server[Any] = Server("acme", on_list_tools=tools)
    skills = publish(root, dialect="sep-2076")
    skills.install(server)
    async with asking(server, version, name="guest") as guest, asking(server, version, name="trusted") as trusted:
        for _ in range(2):
            assert await names(guest) == ["plain"]
            assert await names(trusted) == ["needy", "plain"]
            assert (await guest.refusal("skills/get", {"name": "needy"})).code == -32602
            got = await trusted.ask("skills/get", {"name": "needy"})
            assert got["instructions"] == "Do needy.\n"
        if version == MODERN:
            assert got["cacheScope"] == (await trusted.ask("skills/list"))["cacheScope"] == "private"
            assert (await trusted.ask("skills/get", {"name": "plain"}))["cacheScope"] == "public"
    told = [message for message in caplog.messages if "needy" in message]
    assert told == ['skill://needy/SKILL.md was not listed to a client: this server does not offer it the tool "rare".']
    assert skills.sep2076 is not None
    assert len(skills.sep2076._kept) <= 3


@pytest.mark.rule("I7")
async def test_a_tool_that_the_server_gets_later_brings_the_skill_that_needs_it(root: Path, publish: Publish) -> None:
    write_skill(root, "needy", None, "dependencies: {tools: [late]}")
    server = mcp_server(publish(root, dialect="sep-2076"))
    async with asking(server, MODERN) as asker:
        assert await names(asker) == ["plain"]
        server.tool(name="late")(lambda: "late")
        assert await names(asker) == ["needy", "plain"]


@pytest.mark.rule("I7")
async def test_a_server_whose_skills_depend_on_nothing_is_not_asked(tmp_path: Path, publish: Publish) -> None:
    async def tools(_: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        raise AssertionError("nobody should ask")

    write_skill(tmp_path, "plain")
    server: Server[Any] = Server("acme", on_list_tools=tools)
    publish(tmp_path, dialect="sep-2076").install(server)
    async with asking(server, MODERN) as asker:
        assert await names(asker) == ["plain"]


@pytest.mark.rule("I7")
async def test_lists_that_cannot_be_had_fail_the_request_and_are_asked_for_again(root: Path, publish: Publish) -> None:
    is_broken = True

    async def tools(_: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        if is_broken:
            raise MCPError(code=-32042, message="the author's own words")
        return ListToolsResult(tools=[Tool(name="t", input_schema={"type": "object"})])

    write_skill(root, "needy", None, "dependencies: {tools: [t]}")
    server: Server[Any] = Server("acme", on_list_tools=tools)
    publish(root, dialect="sep-2076").install(server)
    async with asking(server, MODERN) as asker:
        assert (await asker.refusal("skills/list")).message == "the author's own words"
        is_broken = False
        assert "needy" in await names(asker)


# Skills that functions make


def made(kind: str = "none", *, locale: str = "en") -> dict[str, str | bytes]:
    head = "name: made\ndescription: Made.\narguments: [{name: kind}, {name: locale}, {name: more, required: true}]"
    return {"SKILL.md": f"---\n{head}\n---\n{kind} {locale}", "a.md": kind, f"{kind}.txt": ""}


async def made_later(kind: str = "none", locale: str = "en") -> dict[str, str | bytes]:
    return made(kind, locale=locale)


@pytest.mark.rule("I7")
@pytest.mark.parametrize("function", [made, made_later])
async def test_a_function_gets_the_arguments_it_takes(publish: Publish, version: str, function: Any) -> None:
    skills = publish(dialect="sep-2076")
    skills.skill("made")(function)
    async with asking(low_level(skills), version) as asker:
        for given, expected in (
            ({"kind": "tax"}, "tax en"),
            ({"kind": "tax", "locale": "de", "self": "x"}, "tax de"),
            ({}, "none en"),
        ):
            got = await asker.ask("skills/get", {"name": "made", "arguments": {"more": "", **given}})
            assert got["instructions"] == expected
            assert [file["name"] for file in got["files"]] == ["a.md", "none.txt"]
            for file in got["files"]:
                await asker.ask("resources/read", {"uri": file["uri"]})
            if version == MODERN:
                assert got["ttlMs"] == 0
        assert (await asker.refusal("skills/get", {"name": "made", "arguments": {"kind": "tax"}})).code == -32602
        assert len(await asker.listing()) == 1


@pytest.mark.rule("I7", "B3")
async def test_a_function_that_fails_is_the_servers_failure_without_its_insides(publish: Publish, version: str) -> None:
    def fickle(kind: str = "good") -> str:
        if kind == "bad":
            raise RuntimeError("a secret of the author")
        return f"---\nname: {'made' if kind == 'good' else 'x'}\ndescription: M.\narguments: [{{name: kind}}]\n---\n"

    skills = publish(dialect="sep-2076")
    skills.skill("made")(fickle)
    async with asking(low_level(skills), version) as asker:
        for kind in ("bad", "other"):
            refusal = await asker.refusal("skills/get", {"name": "made", "arguments": {"kind": kind}})
            assert refusal.code == -32603
            assert "secret" not in refusal.message
        assert (await asker.ask("skills/get", {"name": "made"}))["instructions"] == ""


@pytest.mark.rule("I7")
async def test_a_function_that_failed_at_first_is_called_again_when_its_skill_is_asked_for(
    publish: Publish, version: str
) -> None:
    is_broken = True

    def late() -> str:
        if is_broken:
            raise RuntimeError("not yet")
        return "---\nname: late\ndescription: L.\ndependencies: {tools: [t]}\n---\nNow.\n"

    skills = publish(dialect="sep-2076")
    skills.skill("a/late")(late)
    server = mcp_server(skills)
    server.tool(name="t")(lambda: "t")
    async with asking(server, version) as asker:
        assert await names(asker) == []
        assert (await asker.refusal("skills/get", {"name": "late"})).code == -32603
        is_broken = False
        assert (await asker.ask("skills/get", {"name": "late"}))["instructions"] == "Now.\n"
        assert await names(asker) == ["late"]


@pytest.mark.rule("I7")
async def test_a_generated_skill_that_an_asker_may_not_see_with_these_arguments_is_unknown(publish: Publish) -> None:
    def labelled(team: str = "open") -> str:
        return f"---\nname: made\ndescription: M.\nteam: {team}\narguments: [{{name: team}}]\n---\n"

    skills = publish(dialect="sep-2076", visible=lambda ctx: lambda entry: entry.frontmatter["team"] == "open")
    skills.skill("made")(labelled)
    async with asking(low_level(skills), MODERN) as asker:
        await asker.ask("skills/get", {"name": "made"})
        refusal = await asker.refusal("skills/get", {"name": "made", "arguments": {"team": "closed"}})
        assert refusal.code == -32602


@pytest.mark.rule("I7")
async def test_a_skill_that_changes_is_given_as_it_is_now(root: Path, publish: Publish) -> None:
    from tests.server.asking import until_equal

    async with asking(low_level(publish(root, dialect="sep-2076", watch=True)), MODERN) as asker:
        assert (await asker.ask("skills/get", {"name": "plain"}))["instructions"] == "Do plain.\n"
        rewrite(root / "plain/SKILL.md", "---\nname: plain\ndescription: New.\n---\nDo more.\n")

        async def now() -> tuple[str, str]:
            got = await asker.ask("skills/get", {"name": "plain"})
            return got["description"], got["instructions"]

        await until_equal(now, ("New.", "Do more.\n"), "the skill is the new one")
