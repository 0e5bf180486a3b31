"""Whatever is asked, the answer is an error of the protocol, short, and of nothing outside the roots (B3, U3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp import MCPError

from skillquay.server.extension import Skills
from tests.server.asking import MODERN, VERSIONS, asking, low_level, mcp_server, write_skill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.server.asking import Asker
    from tests.server.conftest import Publish

SECRET = "the secret outside the root"
METHODS = ("skills/list", "skills/get", "resources/read", "resources/directory/read", "resources/list")
OLDER_METHODS = ("resources/subscribe", "resources/unsubscribe")
EXPECTED = {-32602, -32002}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A skill with a link to a secret beside the root, and the secret under names that walks would lead to."""
    base = tmp_path_factory.mktemp("bad-input")
    for path in ("secret.txt", "skills/secret.txt", "skills/.secret.txt"):
        (base / path).parent.mkdir(exist_ok=True)
        (base / path).write_text(SECRET)
    refunds = write_skill(base / "skills", "refunds", {"docs/a.md": b"a"})
    write_skill(base / "skills", "acme/b")
    (refunds / "link.txt").symlink_to(base / "secret.txt")
    (refunds / "up").symlink_to(base)
    (refunds / ".hidden").write_text(SECRET)
    (refunds / "docs/.hidden").write_text(SECRET)
    return base / "skills"


@pytest.fixture(scope="module")
def skills(root: Path) -> Iterator[Skills]:
    skills = Skills(root, watch=False, page_size=1)
    skills.skill("made")(lambda: {"SKILL.md": "---\nname: made\ndescription: Made.\n---\n", "a/b.md": "b"})
    yield skills
    skills.close()


WALKS = [
    "skill://refunds/../secret.txt",
    "skill://refunds/docs/../../../secret.txt",
    "skill://refunds/%2e%2e/secret.txt",
    "skill://refunds/%2E%2E%2Fsecret.txt",
    "skill://refunds/..%2fsecret.txt",
    "skill://refunds/..%5csecret.txt",
    "skill://refunds/..\\secret.txt",
    "skill://refunds/%252e%252e/secret.txt",
    "skill://refunds/docs%2Fa.md",
    "skill://refunds/docs%5Ca.md",
    "skill://refunds/./SKILL.md",
    "skill://refunds/%2e/SKILL.md",
    "skill://refunds//SKILL.md",
    "skill://refunds/SKILL.md%00",
    "skill://refunds/SKILL.md\0.txt",
    "skill://refunds/SKILL.md%0a",
    "skill://refunds/\x01\x02\x7f",
    "skill://refunds/\u202egpj.md",
    "skill://refunds/\ud800",
    "skill://refunds/%ff",
    "skill://refunds/%",
    "skill://refunds/%zz",
    "skill://../refunds/SKILL.md",
    "skill://%2e%2e/secret.txt",
    "skill://..",
    "skill://.",
    "skill:///refunds/SKILL.md",
    "skill:refunds/SKILL.md",
    "skill://refunds@evil/SKILL.md",
    "skill://refunds:80/SKILL.md",
    "skill://[::1]/SKILL.md",
    "skill://refunds/link.txt",
    "skill://refunds/up/secret.txt",
    "skill://refunds/up",
    "skill://refunds/.hidden",
    "skill://refunds/docs/.hidden",
    "skill://secret.txt",
    "skill://.secret.txt",
    "skill://made/../refunds/SKILL.md",
    "skill://made/%2e%2e/secret.txt",
    "skill://",
    "skill:",
    "://",
    "/etc/passwd",
    "../secret.txt",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "file://localhost/etc/passwd",
    "data:text/plain,x",
    "https://example.com/secret.txt",
    "javascript:alert(1)",
    "\\\\server\\share\\secret.txt",
    "C:\\secret.txt",
    " skill://refunds/SKILL.md",
    "skill://refunds/SKILL.md ",
    "skill://refunds/SKILL.md\n",
    "skill://refunds/skill.md",
    "skill://REFUNDS/SKILL.md",
    "",
    " ",
    "\0",
    "skill://" + "a/" * 100_000,
    "skill://refunds/" + "x" * 1_000_000,
    "skill://refunds/" + "%2e%2e/" * 100_000 + "secret.txt",
    "skill://refunds/" + "\x01" * 3_000,
    "skill://refunds/" + "\U000e0001" * 3_000,
    "x" * 1_000_000,
    "\x01" * 1_000_000,
    "é" * 1_000_000,
]


@pytest.mark.rule("B3", "U3")
@pytest.mark.anyio
async def test_no_uri_walks_anywhere(skills: Skills, version: str) -> None:
    async with asking(low_level(skills), version) as asker:
        methods = ["skills/get", "resources/read", "resources/directory/read"]
        for method in methods if version == MODERN else [*methods, "resources/subscribe"]:
            for uri in WALKS:
                refusal = await asker.refusal(method, {"uri": uri})
                is_unknown_file = method.startswith("resources/") and method != "resources/directory/read"
                expected = -32002 if is_unknown_file and version != MODERN else -32602
                assert refusal.code == expected, (method, uri[:100])
                assert SECRET not in refusal.message
        await still_serves(asker)


MALFORMED: list[Mapping[str, Any]] = [
    {},
    {"uri": None},
    {"uri": 5},
    {"uri": True},
    {"uri": []},
    {"uri": ["skill://refunds/SKILL.md"]},
    {"uri": {"uri": "skill://refunds/SKILL.md"}},
    {"url": "skill://refunds/SKILL.md"},
    {"URI": "skill://refunds/SKILL.md"},
]
BAD_CURSORS: list[object] = [5, True, [], {}, "", "x", "A" * 1_000_000, "\0", "\ud800", 1e400]


@pytest.mark.rule("B3")
@pytest.mark.anyio
@pytest.mark.parametrize("make", [low_level, mcp_server])
async def test_malformed_parameters_are_refused(skills: Skills, make: Any, version: str) -> None:
    async with asking(make(skills), version) as asker:
        for method in ("skills/get", "resources/read", "resources/directory/read"):
            for params in MALFORMED:
                assert (await asker.refusal(method, params)).code == -32602
        for cursor in BAD_CURSORS:
            assert (await asker.refusal("skills/list", {"cursor": cursor})).code == -32602
            params = {"uri": "skill://refunds", "cursor": cursor}
            assert (await asker.refusal("resources/directory/read", params)).code == -32602
            if make is low_level or not isinstance(cursor, str):  # an MCPServer does not look at a cursor
                assert (await asker.refusal("resources/list", {"cursor": cursor})).code == -32602
        for method in ("skills/unknown", "skills/list ", "SKILLS/LIST", "", "\0", "resources/directory"):
            assert (await asker.refusal(method, {})).code == -32601
        await still_serves(asker)


@pytest.mark.rule("L1")
@pytest.mark.anyio
async def test_a_cursor_of_null_is_none(skills: Skills, version: str) -> None:
    async with asking(low_level(skills), version) as asker:
        for method, member, size in [("skills/list", "skills", 1), ("resources/list", "resources", 2)]:
            assert len((await asker.ask(method, {"cursor": None}))[member]) == size


async def still_serves(asker: Asker) -> None:
    assert len(await asker.skills()) == 3
    assert (await asker.text("skill://refunds/SKILL.md")).endswith("Do refunds.\n")


PIECES = (
    "skill: // / refunds acme b made docs a.md SKILL.md .. . %2e %2E%2e %2F %5C \\ \0 %00 % %zz link.txt up .hidden "
    "secret.txt file: https: @ : ? # \x1f \u202e \ud800 é %C3%A9 %ff *"
)
pieces = st.sampled_from(PIECES.split(" "))
uris = st.one_of(
    st.lists(pieces, max_size=9).map("".join),
    st.lists(pieces, max_size=7).map(lambda parts: "skill://" + "/".join(parts)),
    st.text(max_size=30),
    st.text(max_size=30).map("skill://refunds/".__add__),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | uris,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
params = st.one_of(
    st.fixed_dictionaries({"uri": uris}),
    st.fixed_dictionaries({"uri": uris, "cursor": st.text(max_size=40)}),
    st.fixed_dictionaries({"uri": st.sampled_from(["skill://refunds", "skill://made"]), "cursor": values}),
    st.fixed_dictionaries({"cursor": values}),
    st.fixed_dictionaries({"uri": values}),
    st.dictionaries(st.sampled_from(["uri", "cursor", "_extra", "notifications", ""]), values, max_size=4),
)


@pytest.mark.rule("B3", "U3")
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@example([("resources/read", {"uri": "skill://refunds/%2e%2e/secret.txt"})])
@given(st.lists(st.tuples(st.sampled_from(METHODS + OLDER_METHODS), params), min_size=20, max_size=40))
def test_anything_at_all_is_answered_and_never_with_what_lies_outside(
    skills: Skills, version: str, requests: list[tuple[str, dict[str, Any]]]
) -> None:
    async def run() -> None:
        for make in (low_level, mcp_server):
            async with asking(make(skills), version) as asker:
                for method, given_params in requests:
                    try:
                        result = await asker.ask(method, given_params)
                    except MCPError as error:
                        allowed = EXPECTED | ({-32601} if method in OLDER_METHODS else set())
                        assert error.code in allowed, (method, given_params, error)
                        assert len(error.message) < 1000
                        assert SECRET not in error.message
                    else:
                        assert SECRET not in json.dumps(result)
                await still_serves(asker)

    anyio.run(run)


@pytest.mark.rule("B3")
@pytest.mark.anyio
async def test_a_listening_client_may_send_nonsense_too(root: Path, publish: Publish) -> None:
    watched = publish(root, visible=lambda ctx: lambda entry: True)
    async with asking(low_level(watched), MODERN) as asker:
        nonsense: list[Any] = [None, 5, [], "x", {"resourceSubscriptions": 5}, {"resourceSubscriptions": [5, None, []]}]
        for wanted in nonsense:
            assert (await asker.refusal("subscriptions/listen", {"notifications": wanted})).code == -32602
        assert (await asker.refusal("subscriptions/listen", {})).code == -32602
        assert len(await asker.skills()) == 2
