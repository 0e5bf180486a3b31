"""The documents tell the truth: their commands run, their links lead somewhere, and every option is in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.server.lowlevel import Server

from skillquay import PolicyApprover, SkillHost, Skills
from skillquay.server.app import make_server

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def sessions() -> list[tuple[str, str, str]]:
    """Each command shown in a document with output below it, and that output."""
    found: list[tuple[str, str, str]] = []
    for document in DOCUMENTS:
        for block in CONSOLE.findall(document.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                if output.strip():
                    found.append((document.name, command, output))
    return found


@pytest.mark.parametrize(("document", "command", "output"), sessions())
def test_a_command_in_a_document_prints_what_is_shown(document: str, command: str, output: str) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    if command.startswith("skillquay serve"):
        printed = what_a_server_says(command, len(output.splitlines()), environment)
    else:
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        printed = done.stdout + done.stderr
    pattern = re.escape(output.strip()).replace(r"\.\.\.", "[^\n]*")
    assert re.fullmatch(pattern, printed.strip()), f"{document}: {command}\n{printed}"


def what_a_server_says(command: str, lines: int, environment: dict[str, str]) -> str:
    """The first lines of a command that goes on until it is told to end, and then ends well."""
    with subprocess.Popen(command.split(), cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = "".join(process.stderr.readline() for _ in range(lines))
        process.terminate()
        assert process.wait(20) == 0
    return said


def programs() -> list[tuple[str, str]]:
    """Each Python program shown in a document."""
    return [
        (document.name, block)
        for document in DOCUMENTS
        for block in PYTHON.findall(document.read_text(encoding="utf-8"))
    ]


def loads_skills(program: tuple[str, str]) -> bool:
    return "SkillHost" in program[1]


@pytest.mark.parametrize(("document", "program"), [each for each in programs() if not loads_skills(each)])
def test_a_program_in_a_document_publishes_skills(document: str, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {"__name__": document}
    exec(compile(program, document, "exec"), names)
    skills = names["skills"]
    assert isinstance(skills, Skills)

    async def list_skills() -> list[str]:
        server = names.get("mcp")
        if server is None:
            server = Server("document")
            skills.install(server)
        try:
            async with Client(server) as client:
                return [resource.uri for resource in (await client.list_resources()).resources]
        finally:
            skills.close()

    assert any(uri.startswith("skill://") and uri.endswith("/SKILL.md") for uri in anyio.run(list_skills))


@pytest.mark.parametrize(("document", "program"), [each for each in programs() if loads_skills(each)])
def test_a_program_in_a_document_uses_skills(
    document: str, program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {"__name__": document}
    exec(compile(program, document, "exec"), names)
    if "main" in names:
        anyio.run(names["main"])
    elif "run_agent" in names:
        anyio.run(use_loop, names["run_agent"])
    else:
        assert anyio.run(run_command, names["run_shell"]) == "would run ls"


def example_host() -> SkillHost:
    server = make_server("example", Skills("examples/skills"))
    approver = PolicyApprover(trust=["acme"])
    return SkillHost(servers={"acme": server}, state=":memory:", approver=approver, user_skills=())


async def use_loop(run_agent: Any) -> None:
    """A model that asks for a skill, then for one of its files, then answers with what it was given."""
    asked: list[dict[str, Any]] = []

    async def complete(**request: Any) -> Any:
        asked.append(request)
        file = {"name": "refunds", "path": "examples/letter.md"}
        calls = [("read_skill", {"name": "refunds"}), ("read_skill_file", file)]
        turn = len(asked) - 1
        if turn < len(calls):
            name, arguments = calls[turn]
            call = {"type": "tool_use", "id": f"call-{turn}", "name": name, "input": arguments}
            return SimpleNamespace(content=[call])
        return SimpleNamespace(content=[{"type": "text", "text": "Done."}])

    async with example_host() as host:
        assert await run_agent(host, "Refund order 7.", complete) == "Done."
    assert "- refunds (from MCP server acme)" in asked[0]["system"]
    assert {tool["name"] for tool in asked[0]["tools"]} >= {"read_skill", "read_skill_file", "search_skills"}
    given = [block for message in asked[-1]["messages"] for block in message["content"] if isinstance(block, dict)]
    results = [block for block in given if block["type"] == "tool_result"]
    assert [result["tool_use_id"] for result in results] == ["call-0", "call-1"]
    assert '<skill-content origin="MCP server acme" name="refunds"' in results[0]["content"]
    assert (ROOT / "examples/skills/refunds/examples/letter.md").read_text(encoding="utf-8") in results[1]["content"]


async def run_command(run_shell: Any) -> Any:
    async with example_host() as host:
        return await run_shell(host, "ls")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_every_option_of_a_command_is_documented() -> None:
    import typer

    from skillquay.cli.app import app

    documents = [document.read_text(encoding="utf-8") for document in (ROOT / "docs").glob("*.md")]
    for name, command in typer.main.get_group(app).commands.items():
        text = "".join(document for document in documents if f"skillquay {name}" in document)
        assert text, name
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}`" in text, option


def test_no_document_or_source_names_a_package_registry_or_a_path_of_one_machine() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = ["registry." + "npmjs", "pypi." + "org", "files.python" + "hosted", "/ro" + "ot/", "/wo" + "rk/"]
    for path in tracked:
        content = (ROOT / path).read_bytes().decode("utf-8", "replace")
        for name in names:
            assert name not in content, f"{path} names {name}"
