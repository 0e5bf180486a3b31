"""Changes on disk are seen within a second, told to whom it concerns, and never half done."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated

from skillquay import SkillUri
from skillquay.sources import directory as directory_module
from skillquay.sources.reading import FileRead, read_file, unreadable
from tests.server.asking import MODERN, OLDER, asking, low_level, rewrite, until, until_equal, write_skill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp.server.subscriptions import ServerEvent

    from skillquay.server.extension import Skills
    from tests.server.asking import Asker
    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

URI, FILE = "skill://refunds/SKILL.md", "skill://refunds/a.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_skill(tmp_path / "skills", "refunds", {"a.md": b"one"})
    write_skill(tmp_path / "skills", "other", {"b.md": b"one"})
    return tmp_path / "skills"


async def watching(skills: Skills) -> None:
    """Wait until the watcher has seen the tree as it is, so that every event from now on is of a change."""
    await skills.load()
    watcher = skills.publisher._watcher
    assert watcher is not None
    await until(
        lambda: watcher._notify is not None and not watcher._pending and not watcher._is_verifying, "it watches"
    )


@contextlib.asynccontextmanager
async def within_a_second() -> AsyncIterator[None]:
    """What the block waits for must not take long; a busy machine is given some more."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 5


async def reads(asker: Asker, uri: str, expected: str) -> None:
    await until_equal(lambda: asker.text(uri), expected, f"{uri} has its new text")


async def lists(asker: Asker, *names: str) -> None:
    await until_equal(asker.skills, [f"skill://{name}/SKILL.md" for name in names], "these skills are listed")


# I10: notices


@pytest.mark.rule("I10")
async def test_a_change_is_told_to_those_who_listen_for_it_and_only_what_they_asked_for(
    root: Path, publish: Publish, make: Make
) -> None:
    skills = publish(root, watch=True)
    async with asking(make(skills), MODERN) as asker, contextlib.AsyncExitStack() as stack:
        assert asker.client is not None
        await watching(skills)
        listen = asker.client.listen
        every = await stack.enter_async_context(listen(resources_list_changed=True, resource_subscriptions=[FILE]))
        lists_only = await stack.enter_async_context(listen(resources_list_changed=True))
        file_only = await stack.enter_async_context(listen(resource_subscriptions=[FILE]))
        other_only = await stack.enter_async_context(listen(resource_subscriptions=["skill://other/b.md"]))
        tools_only = await stack.enter_async_context(listen(tools_list_changed=True, prompts_list_changed=True))
        async with within_a_second():
            rewrite(root / "refunds/a.md", "two")
            assert {await heard(every), await heard(every)} == {ResourcesListChanged(), ResourceUpdated(uri=FILE)}
            assert await heard(lists_only) == ResourcesListChanged()
            assert await heard(file_only) == ResourceUpdated(uri=FILE)
        assert await asker.text(FILE) == "two"
        rewrite(root / "other/b.md", "two")
        assert await heard(other_only) == ResourceUpdated(uri="skill://other/b.md")
        assert await heard(lists_only) == ResourcesListChanged()
        for quiet in (file_only, tools_only):
            assert not quiet._route._pending


async def heard(listening: Any) -> ServerEvent:
    with anyio.fail_after(20):
        event: ServerEvent = await anext(listening)
        return event


@pytest.mark.rule("I10")
@pytest.mark.parametrize("version", OLDER)
async def test_a_change_is_told_to_older_clients_and_the_file_to_its_subscribers(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    skills = publish(root, watch=True)
    server = make(skills)
    async with asking(server, version) as subscriber, asking(server, version) as other:
        await watching(skills)
        assert await subscriber.ask("resources/subscribe", {"uri": FILE}) == {}
        assert await other.ask("resources/subscribe", {"uri": "skill://other/b.md"}) == {}
        async with within_a_second():
            rewrite(root / "refunds/a.md", "two")
            await until(lambda: subscriber.updated == [FILE], "the subscriber is told")
            await until(lambda: other.lists_changed == 1, "the other is told that something changed")
        assert other.updated == []
        assert await subscriber.ask("resources/unsubscribe", {"uri": FILE}) == {}
        rewrite(root / "refunds/a.md", "three")
        await until(lambda: subscriber.lists_changed == 2, "something changed again")
        assert subscriber.updated == [FILE]
        assert await subscriber.ask("resources/unsubscribe", {"uri": FILE}) == {}


@pytest.mark.rule("I10")
@pytest.mark.parametrize("version", OLDER)
async def test_a_client_is_told_in_the_spelling_it_subscribed_with(
    tmp_path: Path, publish: Publish, version: str
) -> None:
    directory = write_skill(tmp_path, "refunds", {"Q&A.md": b"one"})
    spelling = "skill://refunds/Q%26%41.md"
    skills = publish(tmp_path, watch=True)
    async with asking(low_level(skills), version) as asker:
        await watching(skills)
        await asker.ask("resources/subscribe", {"uri": spelling})
        rewrite(directory / "Q&A.md", "two")
        await until(lambda: asker.updated == [spelling], "the subscriber is told")
        await asker.ask("resources/unsubscribe", {"uri": "skill://refunds/Q&A.md"})
        rewrite(directory / "Q&A.md", "three")
        await until(lambda: asker.lists_changed == 2, "something changed again")
        assert asker.updated == [spelling]


@pytest.mark.rule("I10")
@pytest.mark.parametrize("version", OLDER)
async def test_what_is_not_served_cannot_be_subscribed_to(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root, watch=True)), version) as asker:
        for uri in ("skill://nobody/SKILL.md", "skill://refunds", "skill://refunds/..", "config://x", "x" * 100_000):
            assert (await asker.refusal("resources/subscribe", {"uri": uri})).code == -32002
            assert await asker.ask("resources/unsubscribe", {"uri": uri}) == {}
        for params in ({}, {"uri": 5}, {"uri": None}):
            assert (await asker.refusal("resources/subscribe", params)).code == -32602
            assert (await asker.refusal("resources/unsubscribe", params)).code == -32602


@pytest.mark.rule("I10")
async def test_the_current_revision_has_no_subscriptions_of_the_older_kind(root: Path, publish: Publish) -> None:
    async with asking(low_level(publish(root)), MODERN) as asker:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert (await asker.refusal(method, {"uri": FILE})).code == -32601


@pytest.mark.rule("I10", "B3")
async def test_a_session_subscribes_to_ten_thousand_files_and_no_more(tmp_path: Path, publish: Publish) -> None:
    skills = publish(tmp_path, watch=True)
    skills.skill("made")(lambda: "---\nname: made\ndescription: Made.\n---\n")
    refunds = write_skill(tmp_path, "refunds", {"a.md": b"one", "b.md": b"one"})
    async with asking(low_level(skills), OLDER[0]) as asker:
        await watching(skills)
        await asker.ask("resources/subscribe", {"uri": FILE})
        (connection,) = skills.sessions._open
        for number in range(9_998):  # as the method does, in a fraction of the time
            skills.sessions.subscribe(connection, SkillUri(f"skill://made/{number}.md"))
        await asker.ask("resources/subscribe", {"uri": "skill://made/last.md"})
        refusal = await asker.refusal("resources/subscribe", {"uri": "skill://refunds/b.md"})
        assert (refusal.code, refusal.message) == (-32602, "One session subscribes to at most 10000 resources.")
        assert await asker.ask("resources/subscribe", {"uri": FILE}) == {}
        rewrite(refunds / "a.md", "two")
        await until(lambda: asker.updated == [FILE], "the subscriber is told")
        await asker.ask("resources/unsubscribe", {"uri": "skill://made/1.md"})
        assert await asker.ask("resources/subscribe", {"uri": "skill://refunds/b.md"}) == {}


@pytest.mark.rule("I10")
@pytest.mark.parametrize("version", OLDER)
async def test_a_session_that_left_is_forgotten(root: Path, publish: Publish, make: Make, version: str) -> None:
    skills = publish(root, watch=True)
    server = make(skills)
    for _ in range(3):
        async with asking(server, version) as asker, asking(server, version):
            await asker.ask("resources/subscribe", {"uri": FILE})
            await until(lambda: len(skills.sessions) == 2, "both are known")
        assert len(skills.sessions) == 0
    async with asking(server, MODERN) as asker:
        assert await asker.skills()
        assert len(skills.sessions) == 0
    rewrite(root / "refunds/a.md", "two")
    async with asking(server, version) as asker:
        await reads(asker, FILE, "two")


@pytest.mark.rule("I10", "B3")
async def test_a_client_that_reads_nothing_holds_up_neither_the_catalog_nor_other_clients(
    root: Path, publish: Publish
) -> None:
    """A stream without room, as of a client that stopped: its notice waits, everything else goes on."""
    from mcp.server.connection import Connection

    class Stuck:
        def __init__(self) -> None:
            self.told = 0

        async def notify(self, method: str, params: Any, opts: Any = None) -> None:
            self.told += 1
            await anyio.sleep_forever()

        async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:
            raise NotImplementedError

    skills = publish(root, watch=True)
    async with asking(low_level(skills), OLDER[0]) as asker:
        await watching(skills)
        stuck = Stuck()
        skills.sessions.add(Connection.for_loop(stuck))
        rewrite(root / "refunds/a.md", "two")
        await until(lambda: stuck.told == 1 and asker.lists_changed == 1, "both are told")
        rewrite(root / "refunds/a.md", "three")
        async with within_a_second():
            await reads(asker, FILE, "three")
            await until(lambda: asker.lists_changed == 2, "the other client is told again")
        assert stuck.told == 2


@pytest.mark.rule("I10")
async def test_closing_while_a_change_is_told_does_not_wait_for_it(root: Path, publish: Publish) -> None:
    """Closing happens in the event loop, which the telling itself needs."""
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        live = skills.publisher.live
        before = live.catalog
        rewrite(root / "refunds/a.md", "two")
        deadline = time.monotonic() + 20
        while live.catalog is before:  # the event loop stands still meanwhile, so that nobody can be told
            assert time.monotonic() < deadline
            time.sleep(0.001)  # noqa: ASYNC251
        begun = time.monotonic()
        skills.close()
        assert time.monotonic() - begun < 5
        assert await asker.text(FILE) == "two"


@pytest.mark.rule("I10")
async def test_a_bus_that_fails_keeps_nobody_else_from_being_told(root: Path, publish: Publish) -> None:
    from mcp.server.subscriptions import InMemorySubscriptionBus

    class Broken(InMemorySubscriptionBus):
        async def publish(self, event: ServerEvent) -> None:
            raise ConnectionError("the backend is gone")

    skills = publish(root, watch=True, subscriptions=Broken())
    async with asking(low_level(skills), OLDER[0]) as asker:
        await watching(skills)
        for number in (1, 2):
            rewrite(root / "refunds/a.md", str(number))
            await until(lambda: asker.lists_changed == number, "the client is told")  # noqa: B023


# The watcher


@pytest.mark.rule("I10", "L1")
async def test_skills_come_go_and_change_while_they_are_served(root: Path, publish: Publish) -> None:
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        async with within_a_second():
            write_skill(root, "new/one")
            await lists(asker, "new/one", "other", "refunds")
        shutil.rmtree(root / "other")
        await lists(asker, "new/one", "refunds")
        os.rename(root / "new/one", root / "moved")
        write_skill(root, "moved")
        await lists(asker, "moved", "refunds")
        rewrite(root / "refunds/more.md", "more")
        await reads(asker, "skill://refunds/SKILL.md", (root / "refunds/SKILL.md").read_text())
        entry = (await asker.ask("skills/get", {"uri": URI}))["skill"]
        with anyio.fail_after(20):
            while len(entry["resources"]) != 3:
                entry = (await asker.ask("skills/get", {"uri": URI}))["skill"]


@pytest.mark.rule("L1")
async def test_a_listing_taken_page_by_page_while_skills_change_is_whole(root: Path, publish: Publish) -> None:
    for number in range(6):
        write_skill(root, f"s{number}")
    skills = publish(root, watch=True, page_size=2)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        first = await asker.ask("skills/list")
        shutil.rmtree(root / "other")
        write_skill(root, "aaa")
        await lists(asker, "aaa", "refunds", *(f"s{number}" for number in range(6)))
        rest: list[str] = []
        cursor = first["nextCursor"]
        while cursor:
            page = await asker.ask("skills/list", {"cursor": cursor})
            rest += [entry["uri"] for entry in page["skills"]]
            cursor = page.get("nextCursor")
    assert [entry["uri"] for entry in first["skills"]] == ["skill://other/SKILL.md", URI]
    assert rest == [f"skill://s{number}/SKILL.md" for number in range(6)]


@pytest.mark.rule("E3")
async def test_an_entry_and_its_files_agree_at_every_moment(root: Path, publish: Publish) -> None:
    """Somebody rewrites a skill again and again; what an entry says of a file is true of what is then read."""
    from hashlib import sha256

    skills = publish(root, watch=True)
    stop = threading.Event()

    def keep_writing() -> None:
        number = 0
        while not stop.wait(0.02):
            number += 1
            rewrite(root / "refunds/a.md", str(number))

    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        writer = threading.Thread(target=keep_writing)
        writer.start()
        try:
            digests: set[str] = set()
            deadline = time.monotonic() + 20
            while len(digests) < 2 and time.monotonic() < deadline:
                before = (await asker.ask("skills/get", {"uri": URI}))["skill"]
                text = await asker.text(FILE)
                after = (await asker.ask("skills/get", {"uri": URI}))["skill"]
                if before == after:
                    (record,) = [each for each in before["resources"] if each["uri"] == FILE]
                    assert record["digest"] == f"sha256:{sha256(text.encode()).hexdigest()}"
                    digests.add(record["digest"])
                await anyio.sleep(0.005)
        finally:
            stop.set()
            writer.join()
    assert len(digests) == 2


@pytest.mark.rule("E3")
async def test_a_half_written_skill_never_takes_the_place_of_the_good_one(
    root: Path, publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    good = (root / "refunds/SKILL.md").read_text()
    skills = publish(root, watch=True)
    async with asking(low_level(skills), OLDER[0]) as asker:
        await watching(skills)
        (root / "refunds/SKILL.md").write_text("---\nname: refunds\ndescr")
        await until(lambda: bool(skills.publisher.live.remarks), "the operator has something to look at")
        assert await asker.text(URI) == good
        assert (await asker.listing())[1]["frontmatter"]["description"] == "What refunds is for."
        assert asker.lists_changed == 0
        await until(lambda: "still served" in caplog.text, "the operator is told")
        whole = "---\nname: refunds\ndescription: Better.\n---\nBetter.\n"
        (root / "refunds/SKILL.md").write_text(whole)
        await reads(asker, URI, whole)
        await until(lambda: asker.lists_changed == 1, "the client is told of the new one")
        assert skills.publisher.live.remarks == []


@pytest.mark.rule("I10")
async def test_a_root_that_is_gone_is_still_served_and_watched_again_when_it_comes_back(
    root: Path, publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        os.rename(root, root.with_name("elsewhere"))
        await until(lambda: "is gone. What it published is still served" in caplog.text, "the operator is told")
        await lists(asker, "other", "refunds")
        assert await asker.text(FILE) == "one"
        write_skill(root, "back")
        await lists(asker, "back")
        write_skill(root, "later")
        await lists(asker, "back", "later")


@pytest.mark.rule("I10")
async def test_a_root_that_is_deleted_and_made_anew_at_once_is_watched_again(root: Path, publish: Publish) -> None:
    """The new directory may get the very inode of the old one, and then looks the same."""
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        for name in ("first", "second", "third"):
            shutil.rmtree(root)
            write_skill(root, name)
            await lists(asker, name)
            write_skill(root, f"{name}2")
            await lists(asker, name, f"{name}2")


@pytest.mark.rule("I10")
async def test_a_link_to_a_release_can_be_swapped(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path / "v1", "refunds", {"a.md": b"one"})
    write_skill(tmp_path / "v2", "refunds", {"a.md": b"two"})
    write_skill(tmp_path / "v2", "new")
    (tmp_path / "current").symlink_to("v1")
    skills = publish(tmp_path / "current", watch=True)
    async with asking(low_level(skills), OLDER[0]) as asker:
        await watching(skills)
        await asker.ask("resources/subscribe", {"uri": FILE})
        assert await asker.text(FILE) == "one"
        (tmp_path / "next").symlink_to("v2")
        async with within_a_second():
            os.replace(tmp_path / "next", tmp_path / "current")
            await until(lambda: asker.updated == [FILE], "the subscriber is told")
        assert await asker.text(FILE) == "two"
        await lists(asker, "new", "refunds")
        write_skill(tmp_path / "v2", "later")
        await lists(asker, "later", "new", "refunds")


@pytest.mark.rule("E3", "R1")
async def test_a_file_that_changed_before_it_was_ever_read_is_served_as_it_is_now(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart, entries come from the index at first, and a file's bytes from its directory."""
    root = tmp_path / "skills"
    for number in range(300):
        write_skill(root, f"s{number:03}", {"a.md": b"one", "plain": b"text"})
    written = time.time_ns()
    await until(lambda: time.time_ns() - written > 200_000_000, "the files are old enough to be remembered")
    index = str(tmp_path / "index")
    first = publish(root, index_directory=index)
    await first.load()
    watcher = first.publisher._watcher
    assert watcher is not None
    await until(lambda: not watcher.is_alive(), "the index is written")
    monkeypatch.setattr("skillquay.server.watch._FEW", 0)  # many skills are left alone for the first second
    second = publish(root, index_directory=index)
    await second.load()
    second.close()  # before it has read everything again
    live = second.publisher.live
    waiting = [
        listed.entry.name
        for listed in live.catalog.listed
        for record in listed.entry.resources.files  # type: ignore[union-attr]
        if record.uri.name == "SKILL.md" and not live.is_at_hand(record)
    ]
    assert len(waiting) >= 3
    changed, gone, same = (f"skill://{name}" for name in waiting[-3:])
    rewrite(root / waiting[-3] / "a.md", "two")
    (root / waiting[-2] / "a.md").unlink()
    async with asking(low_level(second), MODERN) as asker:
        assert await asker.text(f"{changed}/a.md") == "two"
        entry = (await asker.ask("skills/get", {"uri": f"{changed}/SKILL.md"}))["skill"]
        assert {record["size"] for record in entry["resources"] if record["uri"].endswith("a.md")} == {3}
        assert (await asker.refusal("resources/read", {"uri": f"{gone}/a.md"})).code == -32602
        assert await asker.text(f"{same}/SKILL.md") == (root / waiting[-1] / "SKILL.md").read_text()


@pytest.mark.rule("I10", "B3")
@pytest.mark.parametrize("place", ["refunds", ".hidden", "elsewhere"])
async def test_a_name_that_is_no_text_does_not_end_the_watching(root: Path, publish: Publish, place: str) -> None:
    """The library that watches cannot name such a file, and gives up at the first."""
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        directory = os.fsencode(root / place)
        os.makedirs(directory, exist_ok=True)
        name = os.path.join(directory, b"caf\xe9")
        os.mknod(name)
        os.unlink(name)
        for text in ("two", "three"):
            (root / "refunds" / "a.md").write_text(text)
            await reads(asker, FILE, text)


async def test_what_could_not_be_read_for_a_moment_is_tried_again(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillquay.server.watch._RETRY", 0.3)
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        is_ill = True

        def failing(location: str, begun: int) -> FileRead:
            if is_ill and location.endswith("a.md"):
                raise unreadable(OSError(errno.EMFILE, "Too many open files"))
            return read_file(location, begun)

        monkeypatch.setattr(directory_module, "read_file", failing)
        (root / "refunds" / "a.md").write_text("two")
        live = skills.publisher.live
        await until(lambda: any(each.finding.kind == "unreadable" for each in live.remarks), "it cannot be read")
        assert await asker.text(FILE) == "one"
        is_ill = False
        await reads(asker, FILE, "two")


async def test_where_changes_cannot_be_watched_the_operator_is_told_and_skills_are_served(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when the operating system has no watches left."""

    def no_watches(*_: object) -> None:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr("skillquay.server.watch.RustNotify", no_watches)
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        assert len(await asker.skills()) == 2
        await until(lambda: "Changes cannot be watched" in caplog.text, "the operator is told")
        assert "OS file watch limit reached." in caplog.text
        assert await asker.text(FILE) == "one"


async def test_without_watching_nothing_changes_and_no_thread_stays(root: Path, publish: Publish) -> None:
    skills = publish(root, watch=False)
    async with asking(low_level(skills), MODERN) as asker:
        assert await asker.text(FILE) == "one"
        watcher = skills.publisher._watcher
        assert watcher is not None
        await until(lambda: not watcher.is_alive(), "the thread ends")
        rewrite(root / "refunds/a.md", "two")
        assert await asker.text(FILE) == "one"


async def test_closing_ends_the_watching_and_can_be_done_twice_or_too_early(root: Path, publish: Publish) -> None:
    skills = publish(root, watch=True)
    skills.close()
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        skills.close()
        skills.close()
        watcher = skills.publisher._watcher
        assert watcher is not None
        assert not watcher.is_alive()
        assert await asker.text(FILE) == "one"


def test_skills_outlive_the_event_loop_that_read_them(root: Path, publish: Publish) -> None:
    """As in a script, or in a test, that runs one loop after the other: changes are still seen, nobody is told."""
    skills = publish(root, watch=True)

    async def first() -> None:
        await watching(skills)

    async def second() -> None:
        async with asking(low_level(skills), MODERN) as asker:
            await reads(asker, FILE, "two")

    anyio.run(first)
    rewrite(root / "refunds/a.md", "two")
    anyio.run(second)


async def test_a_change_that_cannot_be_looked_at_does_not_end_the_watching(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong in a look, say for want of memory, the next one is taken."""
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        with monkeypatch.context() as patched:
            patched.setattr(os, "scandir", _out_of_memory)
            rewrite(root / "refunds/a.md", "two")
            await until(lambda: "could not be looked at" in caplog.text, "the look fails")
        rewrite(root / "other/b.md", "two")
        await reads(asker, "skill://other/b.md", "two")


def _out_of_memory(*_: object) -> None:
    raise MemoryError
