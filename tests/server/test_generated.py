"""Skills that functions make: anew for each reading, announced when they say something else of themselves."""

from __future__ import annotations

import base64
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import MCPError
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated

from skillquay.core.entries import DYNAMIC, LIMITS
from tests.server.asking import MODERN, OLDER, asking, low_level, until, write_skill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

URI = "skill://made/SKILL.md"


def skill_md(description: str = "Made.", body: str = "Do it.\n", name: str = "made") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}"


def as_text() -> str:
    return skill_md()


async def as_text_later() -> str:
    await anyio.lowlevel.checkpoint()
    return skill_md()


class AsObject:
    async def __call__(self) -> bytes:
        return skill_md().encode()


@pytest.mark.rule("E6", "E1", "G1", "L2")
@pytest.mark.parametrize("function", [as_text, as_text_later, AsObject(), partial(as_text_later)])
async def test_a_function_that_makes_text_is_a_dynamic_skill(
    publish: Publish, make: Make, version: str, function: Callable[[], Any]
) -> None:
    skills = publish()
    skills.skill("made")(function)
    async with asking(make(skills), version) as asker:
        (entry,) = await asker.listing()
        assert entry == {
            "uri": URI,
            "frontmatter": {"name": "made", "description": "Made."},
            "resources": DYNAMIC,
        }
        assert (await asker.ask("skills/get", {"uri": URI}))["skill"] == entry
        result = await asker.ask("resources/read", {"uri": URI})
        assert result["contents"] == [{"uri": URI, "mimeType": "text/markdown", "text": skill_md()}]
        _, resource = await asker.listing("resources/list", "resources")
        assert resource == {"uri": URI, "name": "made", "description": "Made.", "mimeType": "text/markdown"}
        if version == MODERN:
            assert (result["ttlMs"], result["cacheScope"]) == (0, "public")


FILES: dict[str, str | bytes] = {
    "SKILL.md": skill_md(),
    "docs/guide.md": "# Guide\r\n",
    "docs/more/deep.txt": "deep",
    "data.bin": bytes(range(256)),
    "a b.md": "\ufeffodd",
    "empty": b"",
}


@pytest.mark.rule("E6", "U7", "D1", "U6")
async def test_a_function_may_make_many_files_and_their_directories_can_be_read(
    publish: Publish, make: Make, version: str
) -> None:
    skills = publish(page_size=2)
    skills.skill("acme/made")(lambda: FILES)
    async with asking(make(skills), version) as asker:
        (entry,) = await asker.listing()
        assert entry["resources"] == DYNAMIC
        for path, expected in FILES.items():
            uri = f"skill://acme/made/{path.replace(' ', '%20')}"
            (contents,) = (await asker.ask("resources/read", {"uri": uri}))["contents"]
            data = contents["text"].encode() if "text" in contents else base64.b64decode(contents["blob"])
            assert data == (expected.encode() if isinstance(expected, str) else expected)
        found = await walk(asker, "skill://acme/made")
        assert found == sorted(f"skill://acme/made/{path.replace(' ', '%20')}" for path in FILES)
        for uri in ("skill://acme/made/gone", "skill://acme/made/data.bin", "skill://acme", "skill://acme/made/docs/"):
            assert (await asker.refusal("resources/directory/read", {"uri": uri})).code == -32602
        for uri in ("skill://acme/made/gone", "skill://acme/made/docs", "skill://acme/made"):
            refusal = await asker.refusal("resources/read", {"uri": uri})
            assert refusal.code == (-32602 if version == MODERN else -32002)


async def walk(asker: Any, directory: str) -> list[str]:
    """The files below a directory, by nothing but directory reads."""
    files: list[str] = []
    cursor: str | None = None
    while True:
        params = {"uri": directory} | ({} if cursor is None else {"cursor": cursor})
        page = await asker.ask("resources/directory/read", params)
        assert len(page["resources"]) <= 2
        for child in page["resources"]:
            is_directory = child.get("mimeType") == "inode/directory"
            files += await walk(asker, child["uri"]) if is_directory else [child["uri"]]
        if (cursor := page.get("nextCursor")) is None:
            return sorted(files)


@pytest.mark.rule("E2", "U1")
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_that_names_a_directory_publishes_its_files_with_their_digests(
    tmp_path: Path, publish: Publish, make: Make, version: str, is_async: bool
) -> None:
    directory = write_skill(tmp_path, "somewhere/made", {"a.md": b"a"})

    async def later() -> Path:
        return directory

    skills = publish()
    skills.skill("acme/made")(later if is_async else lambda: directory)
    async with asking(make(skills), version) as asker:
        (entry,) = await asker.listing()
        assert entry["uri"] == "skill://acme/made/SKILL.md"
        assert [record["uri"] for record in entry["resources"]] == [
            "skill://acme/made/SKILL.md",
            "skill://acme/made/a.md",
        ]
        assert await asker.text("skill://acme/made/a.md") == "a"


async def test_a_function_that_names_a_directory_which_is_gone_publishes_nothing(
    tmp_path: Path, publish: Publish
) -> None:
    skills = publish()
    skills.skill("made")(lambda: tmp_path / "gone")
    skills.skill("other")(lambda: skill_md(name="other"))
    async with asking(low_level(skills), MODERN) as asker:
        assert await asker.skills() == ["skill://other/SKILL.md"]
    assert [remark.location for remark in skills.publisher.live.remarks] == [str(tmp_path / "gone")]


@pytest.mark.rule("E6", "I10")
async def test_every_reading_is_made_anew_and_a_new_entry_is_published_with_it(
    publish: Publish, make: Make, version: str
) -> None:
    made = 0

    def counting() -> str:
        nonlocal made
        made += 1
        return skill_md("First." if made < 3 else "Second.", body=f"Number {made}.\n")

    skills = publish()
    skills.skill("made")(counting)
    async with asking(make(skills), version) as asker:
        assert (await asker.listing())[0]["frontmatter"]["description"] == "First."
        assert made == 1
        assert (await asker.text(URI)).endswith("Number 2.\n")
        assert (await asker.listing())[0]["frontmatter"]["description"] == "First."
        assert made == 2
        assert (await asker.text(URI)).endswith("Number 3.\n")
        assert (await asker.listing())[0]["frontmatter"]["description"] == "Second."
        assert (await asker.ask("skills/get", {"uri": URI}))["skill"]["frontmatter"]["description"] == "Second."
        assert made == 3


@pytest.mark.rule("U6", "D1")
async def test_a_directory_tells_what_the_skill_now_says_of_itself(publish: Publish) -> None:
    description = "First."
    skills = publish()
    skills.skill("made")(lambda: skill_md(description))
    async with asking(low_level(skills), MODERN) as asker:
        assert await asker.skills() == [URI]
        description = "Second."
        (child,) = (await asker.ask("resources/directory/read", {"uri": "skill://made"}))["resources"]
        assert (child["name"], child["description"]) == ("made", "Second.")
        assert child["size"] == len(skill_md(description))


@pytest.mark.rule("I10", "E6")
async def test_a_new_entry_is_announced_to_those_who_listen(publish: Publish, make: Make) -> None:
    description = "First."
    skills = publish()
    skills.skill("made")(lambda: skill_md(description))
    async with asking(make(skills), MODERN) as asker:
        assert await asker.skills() == [URI]
        assert asker.client is not None
        async with asker.client.listen(resources_list_changed=True, resource_subscriptions=[URI]) as listening:
            await asker.ask("resources/read", {"uri": URI})
            description = "Second."
            await asker.ask("resources/read", {"uri": URI})
            with anyio.fail_after(20):
                assert await anext(listening) == ResourcesListChanged()
                assert await anext(listening) == ResourceUpdated(uri=URI)


@pytest.mark.rule("I10", "E6")
@pytest.mark.parametrize("version", OLDER)
async def test_a_new_entry_is_announced_to_older_clients(publish: Publish, make: Make, version: str) -> None:
    description = "First."
    skills = publish()
    skills.skill("made")(lambda: skill_md(description))
    server = make(skills)
    async with asking(server, version) as asker, asking(server, version) as other:
        await asker.ask("resources/subscribe", {"uri": URI})
        assert await other.skills() == [URI]
        description = "Second."
        await other.ask("resources/read", {"uri": URI})
        await until(lambda: asker.updated == [URI] and other.lists_changed == 1, "both are told")
        assert other.updated == []


def raising() -> str:
    raise LookupError("the password is hunter2")


async def raising_later() -> str:
    raise LookupError("the password is hunter2")


def raising_ours() -> str:
    from skillquay import SkillUri

    return SkillUri("the password is hunter2")


def stopping() -> str:
    result: str = next(iter([]))
    return result


TOO_MANY = {"SKILL.md": skill_md()} | {f"{number}.md": "" for number in range(LIMITS.files)}
NONSENSE: dict[str, Callable[[], Any]] = {
    "raises": raising,
    "raises later": raising_later,
    "raises an error of ours": raising_ours,
    "stops an iteration": stopping,
    "nothing": lambda: None,
    "a number": lambda: 5,
    "one line": lambda: "./skills/made",
    "no frontmatter": lambda: "# Made\n\nDo it.\n",
    "another name": lambda: skill_md(name="other"),
    "no description": lambda: "---\nname: made\n---\n",
    "no SKILL.md": lambda: {"a.md": "a"},
    "a number as content": lambda: {"SKILL.md": skill_md(), "a.md": 5},
    "a number as path": lambda: {"SKILL.md": skill_md(), 5: "a"},
    "a path that walks": lambda: {"SKILL.md": skill_md(), "../../etc/passwd": "a"},
    "an absolute path": lambda: {"SKILL.md": skill_md(), "/etc/passwd": "a"},
    "an empty path": lambda: {"SKILL.md": skill_md(), "": "a"},
    "half a character": lambda: skill_md(body="\ud800"),
    "too many files": lambda: TOO_MANY,
    "too many bytes": lambda: {"SKILL.md": skill_md(), "a.bin": b"x" * LIMITS.size},
}


@pytest.mark.rule("R4", "E4", "E6")
@pytest.mark.parametrize("slip", NONSENSE)
async def test_a_function_that_makes_no_skill_loses_no_other_and_tells_a_client_nothing(
    publish: Publish, version: str, slip: str
) -> None:
    """It is not listed; whoever asks for it by its URI has it tried again."""
    content: Callable[[], Any] = NONSENSE[slip]
    skills = publish()
    skills.skill("made")(lambda: content())  # noqa: PLW0108 - it is another one later
    skills.skill("good")(lambda: skill_md(name="good"))
    async with asking(low_level(skills), version) as asker:
        assert await asker.skills() == ["skill://good/SKILL.md"]
        refusal = await asker.refusal("skills/get", {"uri": URI})
        assert (refusal.code, refusal.message) == (-32603, "The server could not answer. Its log says why.")
        content = as_text
        assert (await asker.ask("skills/get", {"uri": URI}))["skill"]["uri"] == URI
        assert await asker.skills() == ["skill://good/SKILL.md", URI]
        content = NONSENSE[slip]
        for method, uri in [("resources/read", URI), ("resources/directory/read", "skill://made")]:
            refusal = await asker.refusal(method, {"uri": uri})
            assert (refusal.code, refusal.message) == (-32603, "The server could not answer. Its log says why.")
        assert await asker.skills() == ["skill://good/SKILL.md", URI]
        content = as_text
        assert await asker.text(URI) == skill_md()


@pytest.mark.rule("E4")
async def test_a_function_may_make_as_much_as_a_skill_may_hold(publish: Publish) -> None:
    files = {"SKILL.md": skill_md().encode()} | {f"{number}.md": b"" for number in range(LIMITS.files - 1)}
    files["0.md"] = b"x" * (LIMITS.size - len(files["SKILL.md"]))
    skills = publish()
    skills.skill("made")(lambda: files)
    async with asking(low_level(skills), MODERN) as asker:
        assert len(await asker.text("skill://made/0.md")) == len(files["0.md"])


@pytest.mark.rule("R4")
async def test_a_function_may_refuse_in_its_own_words(publish: Publish, version: str) -> None:
    is_open = True

    def made() -> str:
        if not is_open:
            raise MCPError(code=-32050, message="Closed on Sundays.")
        return skill_md()

    skills = publish()
    skills.skill("made")(made)
    async with asking(low_level(skills), version) as asker:
        assert await asker.skills() == [URI]
        is_open = False
        assert (await asker.refusal("resources/read", {"uri": URI})).message == "Closed on Sundays."


async def test_one_path_has_one_function(publish: Publish) -> None:
    skills = publish()
    skills.skill("acme/made")(as_text)
    with pytest.raises(ValueError, match="skill://acme/made has a function already"):
        skills.skill("/acme/made/")(as_text)
    other = publish()
    other.skill("acme/made")(as_text)
    with pytest.raises(ValueError, match="already"):
        skills.include(other)


async def test_registering_gives_the_function_back(publish: Publish) -> None:
    assert publish().skill("made")(as_text) is as_text


@pytest.mark.rule("G1")
async def test_a_function_wins_over_a_directory_with_the_same_uri(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path, "made", {"a.md": b"a"})
    skills = publish(tmp_path)
    skills.skill("made")(as_text)
    async with asking(low_level(skills), MODERN) as asker:
        assert [entry["resources"] for entry in await asker.listing()] == [DYNAMIC]
        assert await asker.text(URI) == skill_md()
    assert [remark.finding.kind for remark in skills.publisher.live.remarks] == ["published-twice"]


async def test_a_slow_function_holds_nobody_up(publish: Publish) -> None:
    """A function that is not async runs in a thread; one that waits does not keep others from being answered."""
    may_end = threading.Event()
    calls = 0

    def slow() -> str:
        nonlocal calls
        calls += 1
        if calls > 1:
            assert may_end.wait(20)
        return skill_md()

    skills = publish()
    skills.skill("made")(slow)
    skills.skill("good")(lambda: skill_md(name="good"))
    async with asking(low_level(skills), MODERN) as asker:
        assert len(await asker.skills()) == 2
        async with anyio.create_task_group() as group:
            group.start_soon(asker.ask, "resources/read", {"uri": URI})
            await until(lambda: calls == 2, "the slow function runs")
            assert await asker.text("skill://good/SKILL.md") == skill_md(name="good")
            may_end.set()


async def test_a_long_look_at_the_directories_holds_no_generated_skill_up(tmp_path: Path, publish: Publish) -> None:
    """The catalog is locked while a changed tree is read; nobody waits for that in the event loop."""
    description = "First."
    skills = publish(tmp_path)
    skills.skill("made")(lambda: skill_md(description))
    is_looking, may_end = threading.Event(), threading.Event()

    def look() -> None:
        with skills.publisher.live._lock:
            is_looking.set()
            may_end.wait(10)

    async with asking(low_level(skills), MODERN) as asker:
        assert await asker.skills() == [URI]
        thread = threading.Thread(target=look)
        thread.start()
        assert is_looking.wait(10)
        assert await asker.text(URI) == skill_md("First.")
        description = "Second."
        async with anyio.create_task_group() as group:
            group.start_soon(asker.ask, "resources/read", {"uri": URI})
            assert await asker.skills() == [URI]
            assert thread.is_alive()
            may_end.set()
        assert (await asker.listing())[0]["frontmatter"]["description"] == "Second."
        thread.join()


async def test_a_first_request_that_is_given_up_leaves_nothing_half_done(tmp_path: Path, publish: Publish) -> None:
    """The skills are read with the first request; when its client leaves meanwhile, the next one reads them."""
    directory = write_skill(tmp_path, "named")
    begun, may_end = anyio.Event(), anyio.Event()

    async def slow() -> str:
        begun.set()
        await may_end.wait()
        return skill_md()

    skills = publish()
    skills.skill("named")(lambda: directory)
    skills.skill("made")(slow)
    async with asking(low_level(skills), MODERN) as asker:
        async with anyio.create_task_group() as group:
            group.start_soon(asker.ask, "skills/list")
            with anyio.fail_after(20):
                await begun.wait()
            group.cancel_scope.cancel()
        may_end.set()
        assert await asker.skills() == [URI, "skill://named/SKILL.md"]
    assert skills.publisher.live.remarks == []
