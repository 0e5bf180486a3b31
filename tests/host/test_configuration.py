"""`.mcp.json` is read server by server, never expanded before it is trusted, and never shows a secret."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillquay.core.identity import ServerLabel
from skillquay.errors import ConfigurationError
from skillquay.host.configuration import MAX_FILE, Configuration, HttpServer, StdioServer, expand, read_mcp_json

if TYPE_CHECKING:
    from pathlib import Path


def configured(tmp_path: Path, servers: object, *, name: str = ".mcp.json") -> Configuration:
    path = tmp_path / name
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return read_mcp_json(str(path))


def one(tmp_path: Path, raw: object) -> StdioServer | HttpServer:
    read = configured(tmp_path, {"it": raw})
    assert read.problems == ()
    (server,) = read.servers.values()
    return server


def refusal(tmp_path: Path, raw: object) -> str:
    """Why a server is not used; the other one in the file always is."""
    read = configured(tmp_path, {"bad": raw, "good": {"command": "true"}})
    assert [label.label for label in read.servers] == ["good"]
    (problem,) = read.problems
    assert problem.subject == "bad"
    assert problem.rule == "P4"
    assert problem.message.startswith('The server "bad" ')
    assert problem.message.endswith(" It is not used.")
    return problem.message


def written(tmp_path: Path, data: bytes) -> Configuration:
    path = tmp_path / ".mcp.json"
    path.write_bytes(data)
    return read_mcp_json(str(path))


def whole_refusal(read: Configuration) -> str:
    """Why no server of a file is used."""
    assert not read.servers
    (problem,) = read.problems
    assert problem.subject.endswith(".mcp.json")
    assert problem.rule == "P4"
    return problem.message


# Servers


@pytest.mark.rule("P4")
def test_a_process_and_a_url_are_servers_without_a_type(tmp_path: Path) -> None:
    read = configured(
        tmp_path,
        {
            "files": {"command": "npx", "args": ["-y", "pkg"], "env": {"KEY": "v"}, "cwd": "sub"},
            "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}},
        },
    )
    assert read.problems == ()
    files, web = read.servers.values()
    assert files == StdioServer(command="npx", args=("-y", "pkg"), env={"KEY": "v"}, cwd="sub")
    assert web == HttpServer(url="https://example.com/mcp", headers={"Authorization": "Bearer x"})


@pytest.mark.rule("P4")
@pytest.mark.parametrize("transport", ["http", "streamable-http", "streamable_http"])
def test_every_spelling_of_the_http_type_is_known(tmp_path: Path, transport: str) -> None:
    assert one(tmp_path, {"type": transport, "url": "http://[::1]:80/mcp"}) == HttpServer(url="http://[::1]:80/mcp")


@pytest.mark.rule("P4")
def test_a_process_may_say_its_type_and_fields_nobody_knows_are_passed_over(tmp_path: Path) -> None:
    raw: dict[str, object] = {
        "type": "stdio",
        "command": "x",
        "args": None,
        "env": None,
        "cwd": None,
        "timeout": 3,
        "note": [{}],
    }
    assert one(tmp_path, raw) == StdioServer(command="x")


@pytest.mark.rule("P4")
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"type": "sse", "url": "https://example.com"}, 'of the type "sse"'),
        ({"type": "web\u202esocket", "url": "https://example.com"}, 'of the type "web⟨U+202E⟩socket"'),
        ({"type": ["http"], "url": "https://example.com"}, "something else than text"),
        ({"type": "http", "command": "x"}, 'has no "url"'),
        ({"type": "stdio", "url": "https://example.com"}, 'has no "command"'),
        ({"command": "x", "url": "https://example.com"}, 'both a "command" and a "url"'),
        ({}, 'neither a "command" nor a "url"'),
        ([], "is not an object"),
        (None, "is not an object"),
        ("npx", "is not an object"),
        ({"command": ""}, 'empty "command"'),
        ({"command": ["x"]}, '"command" that is not text'),
        ({"command": "x\0y"}, 'a character in "command"'),
        ({"command": "x", "args": "-y"}, '"args" that are not an array'),
        ({"command": "x", "args": ["a", 1]}, '"args[1]" that is not text'),
        ({"command": "x", "args": ["\ud800"]}, 'a character in "args[0]"'),
        ({"command": "x", "env": []}, '"env" that is not an object'),
        ({"command": "x", "env": {"PORT": 80}}, '"env.PORT" that is not text; put it in quotes'),
        ({"command": "x", "env": {"A=B": "c"}}, '"A=B" in "env"'),
        ({"command": "x", "env": {"": "c"}}, '"" in "env"'),
        ({"command": "x", "env": {"A\0": "c"}}, 'a character in "env"'),
        ({"command": "x", "cwd": 1}, '"cwd" that is not text'),
        ({"url": 1}, '"url" that is not text'),
        ({"url": ""}, '"url" that is not one of http://'),
        ({"url": "file:///etc/passwd"}, '"url" that is not one of http://'),
        ({"url": "ws://example.com"}, '"url" that is not one of http://'),
        ({"url": "https://"}, '"url" that is not one of http://'),
        ({"url": "https://[::1"}, '"url" that is not one of http://'),
        ({"url": "https://example.com:99999"}, '"url" that is not one of http://'),
        ({"url": "https://example.com/a b"}, '"url" that is not one of http://'),
        ({"url": "https://exam\u200bple.com/"}, '"url" that is not one of http://'),
        ({"url": "https://example.com", "headers": {"a b": "c"}}, '"a b" in "headers"'),
        ({"url": "https://example.com", "headers": {"": "c"}}, '"" in "headers"'),
        ({"url": "https://example.com", "headers": {"a": None}}, '"headers.a" that is not text'),
    ],
)
def test_a_server_that_cannot_be_used_is_told_of_and_never_loses_the_others(
    tmp_path: Path, raw: object, reason: str
) -> None:
    assert reason in refusal(tmp_path, raw)


# Labels


@pytest.mark.rule("N1")
def test_a_label_is_the_key_tied_to_the_real_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    configured(real, {"acme": {"command": "x"}})
    (label,) = read_mcp_json(str(tmp_path / "link" / ".mcp.json")).servers
    assert label == ServerLabel(label="acme", scope=os.path.realpath(real / ".mcp.json"))


@pytest.mark.rule("N1")
def test_one_label_in_two_workspaces_is_two_servers(tmp_path: Path) -> None:
    labels = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        labels |= set(configured(tmp_path / name, {"acme": {"command": "x"}}).servers)
    assert len(labels) == 2


@pytest.mark.rule("N1")
@pytest.mark.parametrize("key", ["", " acme", "ac\u202eme", "ac\nme", "\ud800", "x" * 65, "x" * 5000])
def test_a_key_that_cannot_be_a_label_is_told_of_and_never_loses_the_others(tmp_path: Path, key: str) -> None:
    read = configured(tmp_path, {key: {"command": "x"}, "good": {"command": "x"}})
    assert [label.label for label in read.servers] == ["good"]
    (problem,) = read.problems
    assert problem.rule == "N1"
    assert len(problem.subject) < 200
    assert "\u202e" not in problem.subject + problem.message


@pytest.mark.rule("P4")
def test_a_server_configured_twice_is_used_neither_way(tmp_path: Path) -> None:
    text = b'{"mcpServers": {"acme": {"command": "a"}, "other": {"command": "x"}, "acme": {"command": "b"}}}'
    read = written(tmp_path, text)
    assert [label.label for label in read.servers] == ["other"]
    (problem,) = read.problems
    assert "more than once" in problem.message


@pytest.mark.rule("P4")
@pytest.mark.parametrize(
    "server",
    [
        '{"command": "a", "command": "b"}',
        '{"command": "a", "env": {"K": "1", "K": "2"}}',
        '{"url": "https://a.example", "headers": {"K": "1", "K": "2"}}',
    ],
)
def test_a_key_written_twice_inside_a_server_is_a_problem_of_that_server(tmp_path: Path, server: str) -> None:
    read = written(tmp_path, f'{{"mcpServers": {{"bad": {server}, "good": {{"command": "x"}}}}}}'.encode())
    assert [label.label for label in read.servers] == ["good"]
    (problem,) = read.problems
    assert "more than once" in problem.message


# Files


@pytest.mark.rule("P4")
def test_a_file_that_is_not_there_configures_nothing(tmp_path: Path) -> None:
    read = read_mcp_json(str(tmp_path / ".mcp.json"))
    assert (dict(read.servers), read.problems) == ({}, ())


@pytest.mark.rule("P4")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not JSON: line 1"),
        (b'{\n"mcpServers": {,}}', "is not JSON: line 2"),
        (b"[]", 'has no object "mcpServers"'),
        (b"{}", 'has no object "mcpServers"'),
        (b'{"mcpServers": []}', 'has no object "mcpServers"'),
        (b'{"mcpServers": {}, "mcpServers": {}}', 'has "mcpServers" more than once'),
        (b'{"mcpServers": "\xff"}', "is not UTF-8 text"),
        (b"[" * 200_000, "it is too deep"),
        (b"1" * 5000, "a number is too long"),
        (b" " * (MAX_FILE + 1), f"has more than {MAX_FILE:,} bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_problem_and_never_an_exception(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    assert reason in whole_refusal(written(tmp_path, data))


@pytest.mark.rule("P4")
def test_a_file_of_exactly_the_limit_is_read_and_a_byte_order_mark_is_nothing(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"mcpServers": {"acme": {"command": "x"}}}'
    assert len(written(tmp_path, data.ljust(MAX_FILE)).servers) == 1


@pytest.mark.rule("P4")
def test_a_fifo_or_a_directory_in_the_files_place_never_blocks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".mcp.json")
    assert "is not a regular file" in whole_refusal(read_mcp_json(str(tmp_path / ".mcp.json")))
    (tmp_path / "sub" / ".mcp.json").mkdir(parents=True)
    assert "is not a regular file" in whole_refusal(read_mcp_json(str(tmp_path / "sub" / ".mcp.json")))


@pytest.mark.rule("P4")
def test_a_file_that_the_system_does_not_open_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").symlink_to(".mcp.json")
    assert "cannot be read: " in whole_refusal(read_mcp_json(str(tmp_path / ".mcp.json")))


# Variables


@pytest.mark.rule("P6")
def test_reading_looks_up_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    read = configured(
        tmp_path,
        {
            "process": {"command": "${SECRET}", "args": ["${SECRET}"], "env": {"K": "${SECRET}"}, "cwd": "${SECRET}"},
            "web": {"url": "https://${SECRET}.example/", "headers": {"K": "${UNSET_VARIABLE}"}},
        },
    )
    process, web = read.servers.values()
    assert process == StdioServer(command="${SECRET}", args=("${SECRET}",), env={"K": "${SECRET}"}, cwd="${SECRET}")
    assert web == HttpServer(url="https://${SECRET}.example/", headers={"K": "${UNSET_VARIABLE}"})
    assert "hunter2" not in str([process, web, read, *read.problems])


@pytest.mark.rule("P4")
def test_variables_expand_in_every_value() -> None:
    environment = {"BIN": "/opt/x", "KEY": "k", "HOST": "h.example"}
    process = StdioServer(
        command="${BIN}/run", args=("--a=${KEY}${KEY}", "plain"), env={"${KEY}": "${KEY}"}, cwd="${BIN}"
    )
    assert expand(process, environment) == StdioServer(
        command="/opt/x/run", args=("--a=kk", "plain"), env={"${KEY}": "k"}, cwd="/opt/x"
    )
    web = HttpServer(url="https://${HOST}/${PATH_:-mcp}", headers={"X": "Bearer ${KEY}"})
    assert expand(web, environment) == HttpServer(url="https://h.example/mcp", headers={"X": "Bearer k"})


@pytest.mark.rule("P4")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${SET}", "value"),
        ("${SET:-other}", "value"),
        ("${UNSET:-other}", "other"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b $HOME}", "a:-b $HOME"),
        ("${EMPTY:-other}", ""),
        ("${NESTED}", "${SET} ${UNSET}"),
        ("$SET $${SET} ${} ${1} ${a-b} ${SET:+x} ${SET", "$SET $value ${} ${1} ${a-b} ${SET:+x} ${SET"),
    ],
)
def test_what_a_variable_holds_is_not_expanded_again(text: str, expected: str) -> None:
    environment = {"SET": "value", "EMPTY": "", "NESTED": "${SET} ${UNSET}"}
    assert expand(StdioServer(command="x", args=(text,)), environment) == StdioServer(command="x", args=(expected,))


@pytest.mark.rule("P4")
def test_unset_variables_are_named_and_no_value_is() -> None:
    server = HttpServer(url="https://${HOST}/", headers={"A": "${SECRET} ${TOKEN_A}", "B": "hunter3 ${TOKEN_B}"})
    with pytest.raises(ConfigurationError) as failure:
        expand(server, {"SECRET": "hunter2", "HOST": "h"})
    message = str(failure.value)
    assert "TOKEN_A, TOKEN_B are not set" in message
    assert "${TOKEN_A:-default}" in message
    assert "hunter" not in message
    assert failure.value.rule == "P4"


@pytest.mark.rule("P4")
@pytest.mark.parametrize(
    "server",
    [
        HttpServer(url="${SECRET}"),
        HttpServer(url="file:///${SECRET}"),
        HttpServer(url="https://h.example/", headers={"A": "${SECRET}"}),
    ],
)
def test_what_expansion_makes_is_checked_and_not_shown(server: HttpServer) -> None:
    with pytest.raises(ConfigurationError) as failure:
        expand(server, {"SECRET": "hunter2\r\nX: y"})
    assert "hunter2" not in str(failure.value)


@pytest.mark.rule("P4")
@example("Bearer x")
@example("Bearer x ")
@example("")
@example("a\t b")
@example("x\u00a0")
@given(st.text(st.sampled_from("ab ~!\t\r\n\x00\x0b\x1c\x7f\x85\xa0\xe9\u2028") | st.characters(), max_size=12))
def test_a_header_is_taken_if_and_only_if_it_can_be_sent(value: str) -> None:
    try:
        h11.Request(method="GET", target="/", headers=[(b"Host", b"x"), (b"A", value.encode("ascii"))])
        can_be_sent = value.isprintable() or ("\t" in value and value.replace("\t", "").isprintable())
    except (h11.LocalProtocolError, UnicodeEncodeError):
        can_be_sent = False
    server = HttpServer(url="https://h.example/", headers={"A": "${SECRET}"})
    if can_be_sent:
        assert expand(server, {"SECRET": value}) == HttpServer(url=server.url, headers={"A": value})
    else:
        with pytest.raises(ConfigurationError, match='The header "A" would hold'):
            expand(server, {"SECRET": value})


@pytest.mark.rule("P4")
@pytest.mark.parametrize("name", ["", "a b", "a\u00e9", "a:", "a\n"])
def test_a_name_that_is_none_of_a_header_is_refused_also_when_it_is_given_in_code(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name one"):
        expand(HttpServer(url="https://h.example/", headers={name: "x"}), {})


@pytest.mark.rule("P4")
def test_a_command_that_expands_to_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="The command is empty"):
        expand(StdioServer(command="${UNSET:-}"), {})


@pytest.mark.rule("P4")
def test_no_server_shows_a_value_that_may_be_a_secret() -> None:
    process = StdioServer(command="npx", args=("--token=hunter2",), env={"KEY": "hunter2"})
    web = HttpServer(url="https://user:hunter2@h.example/?key=hunter2", headers={"Authorization": "hunter2"})
    broken = HttpServer(url="https://[hunter2", headers={})
    assert "hunter2" not in f"{process!r} {process} {web!r} {web} {broken!r}"
    assert "npx" in repr(process)
    assert "h.example" in repr(web)
