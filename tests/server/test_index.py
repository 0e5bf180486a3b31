"""`skill://index.json` satisfies the readers of both drafts before v1, and costs nothing until somebody reads it."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from mcp.client.subscriptions import ResourceUpdated

from skillquay.archives.packing import pack
from skillquay.core.digests import Digest
from skillquay.server import index_document
from tests.server.asking import MODERN, OLDER, asking, low_level, rewrite, until, write_skill
from tests.server.test_changes import heard, watching
from tests.server.test_express import both

if TYPE_CHECKING:
    from pathlib import Path

    from skillquay.core.entries import FileRecord, SkillEntry
    from skillquay.server.extension import Skills
    from tests.server.asking import Asker
    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

INDEX = "skill://index.json"
SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
REFUNDS, INNER, PLAIN = "skill://acme/refunds/SKILL.md", "skill://acme/refunds/inner/SKILL.md", "skill://plain/SKILL.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    lines = ("license: MIT", 'metadata: {team: "ä \\\\ \\" x", big: 12345678901234567890}')
    write_skill(root, "acme/refunds", {"scripts/run.sh": b"#!/bin/sh\n"}, *lines)
    write_skill(root, "acme/refunds/inner", {"x.md": b"x"})
    write_skill(root, "plain", {"logo.png": b"\x89PNG\xff"})
    return root


async def read_index(asker: Asker) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(await asker.text(INDEX))
    return document


async def urls(asker: Asker) -> list[str]:
    return [entry["url"] for entry in (await read_index(asker))["skills"]]


async def skill_names(asker: Asker) -> list[str]:
    return [entry["name"] for entry in (await read_index(asker))["skills"]]


# The document


@pytest.mark.rule("I1", "I2", "I3", "I12")
async def test_one_document_is_right_by_both_drafts(root: Path, publish: Publish, make: Make, version: str) -> None:
    async with asking(make(publish(root)), version) as asker:
        result = await asker.ask("resources/read", {"uri": INDEX})
        (contents,) = result["contents"]
        assert contents.keys() == {"uri", "mimeType", "text"}
        assert (contents["uri"], contents["mimeType"]) == (INDEX, "application/json")
        document = json.loads(contents["text"])
        assert document.keys() == {"$schema", "skills"}
        assert document["$schema"] == SCHEMA
        entries = {entry["url"]: entry for entry in document["skills"]}
        assert list(entries) == [REFUNDS, PLAIN]  # each once, and none that lies in another
        listed = {entry["uri"]: entry for entry in await asker.listing()}
        for url, entry in entries.items():
            assert entry.keys() == {"type", "name", "description", "url", "digest", "frontmatter", "archives"}
            assert entry["type"] == "skill-md"
            assert entry["frontmatter"] == listed[url]["frontmatter"]
            assert {key: entry[key] for key in ("name", "description")} == {
                key: entry["frontmatter"][key] for key in ("name", "description")
            }
            assert entry["digest"] == Digest.of((await asker.text(url)).encode())
            root_url = url.removesuffix("/SKILL.md")
            assert [(each["url"], each["mimeType"]) for each in entry["archives"]] == [
                (f"{root_url}.tar.gz", "application/gzip"),
                (f"{root_url}.zip", "application/zip"),
            ]
            for each in entry["archives"]:
                assert each.keys() == {"url", "mimeType", "digest"}
        if version == MODERN:
            assert (result["ttlMs"], result["cacheScope"]) == (60000, "public")


@pytest.mark.rule("I1")
async def test_the_index_is_listed_first_of_ours_and_found_in_any_spelling(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        first, *others = await asker.listing("resources/list", "resources")
        assert first == {"uri": INDEX, "name": "index.json", "mimeType": "application/json"}
        assert INDEX not in {each["uri"] for each in others}
        spelling = "skill://index%2Ejson"
        (contents,) = (await asker.ask("resources/read", {"uri": spelling}))["contents"]
        assert contents["uri"] == spelling
        assert json.loads(contents["text"]) == await read_index(asker)
        assert (await asker.refusal("skills/get", {"uri": INDEX})).code == -32602
        assert (await asker.refusal("resources/directory/read", {"uri": INDEX})).code == -32602


@pytest.mark.rule("I1", "I2")
async def test_a_generated_skill_has_neither_digest_nor_archives(publish: Publish, version: str) -> None:
    skills = publish()
    skills.skill("made")(lambda: "---\nname: made\ndescription: Made.\n---\nNow.\n")
    async with asking(low_level(skills), version) as asker:
        assert (await read_index(asker))["skills"] == [
            {
                "type": "skill-md",
                "name": "made",
                "description": "Made.",
                "url": "skill://made/SKILL.md",
                "frontmatter": {"name": "made", "description": "Made."},
            }
        ]
        assert (await asker.refusal("resources/read", {"uri": "skill://made.zip"})).message.startswith("No resource")
        assert skills.publisher._index._thread is None


async def test_a_server_without_skills_has_an_empty_index(publish: Publish, version: str) -> None:
    async with asking(low_level(publish()), version) as asker:
        assert await read_index(asker) == {"$schema": SCHEMA, "skills": []}


async def test_a_server_may_go_without_an_index(root: Path, publish: Publish, make: Make, version: str) -> None:
    async with asking(make(publish(root, index=False)), version) as asker:
        for uri in (INDEX, "skill://plain.zip", "skill://acme/refunds.tar.gz"):
            refusal = await asker.refusal("resources/read", {"uri": uri})
            assert refusal.message.startswith("No resource is served at ")
        assert [each["uri"] for each in await asker.listing("resources/list", "resources")] == [REFUNDS, INNER, PLAIN]
        if version != MODERN:
            await asker.refusal("resources/subscribe", {"uri": INDEX})


@pytest.mark.rule("I12")
async def test_the_operator_is_told_once_that_nested_skills_are_left_out(
    root: Path, publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await publish(root, index=False).load()
    await publish(root / "plain").load()
    assert not caplog.messages
    skills = publish(root)
    async with asking(low_level(skills), MODERN) as asker:
        assert INNER not in await urls(asker)
        assert INNER in await asker.skills()
        await urls(asker)
    (told,) = caplog.messages
    assert told.startswith("1 skill that lies in another one is not in skill://index.json, whose drafts forbid nesting")


@pytest.mark.rule("I1", "I12")
async def test_everybody_finds_in_the_index_what_they_may_see(root: Path, publish: Publish, version: str) -> None:
    def visible(ctx: Any) -> Any:
        name = ctx.session.client_params.client_info.name
        return lambda entry: name == "all" or entry.name == "plain"

    server = low_level(publish(root, visible=visible))
    async with asking(server, version, name="all") as everything, asking(server, version, name="one") as one:
        assert await urls(everything) == [REFUNDS, PLAIN]
        assert await urls(one) == [PLAIN]
        for url in ("skill://acme/refunds.zip", "skill://acme/refunds.tar.gz"):
            assert (await everything.ask("resources/read", {"uri": url}))["contents"][0]["blob"]
            assert (await one.refusal("resources/read", {"uri": url})).message.startswith("No resource is served at ")
        assert (await one.ask("resources/read", {"uri": "skill://plain.zip"}))["contents"][0]["blob"]
        if version == MODERN:
            assert (await one.ask("resources/read", {"uri": INDEX}))["cacheScope"] == "private"


async def test_others_have_their_turn_while_each_entry_is_looked_at(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_document, "_SLICE", 1000)
    for number in range(40):
        write_skill(tmp_path, f"s{number}")
    turns = 0
    seen: list[int] = []

    def sees(entry: SkillEntry) -> bool:
        seen.append(turns)
        return True

    skills = publish(tmp_path, visible=lambda _: sees)
    async with asking(low_level(skills), MODERN) as asker, anyio.create_task_group() as group:

        async def take_turns() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        group.start_soon(take_turns)
        assert len(await skill_names(asker)) == 40
        group.cancel_scope.cancel()
    assert len(seen) == 40
    assert max(seen.count(turn) for turn in seen) <= 10  # not all at one turn


# When it changes


@pytest.mark.rule("I10")
async def test_who_listens_to_the_index_is_told_of_every_change(root: Path, publish: Publish, make: Make) -> None:
    skills = publish(root, watch=True)
    async with asking(make(skills), MODERN) as asker:
        assert asker.client is not None
        await watching(skills)
        async with asker.client.listen(resource_subscriptions=[INDEX]) as listening:
            before = await read_index(asker)
            rewrite(root / "plain/SKILL.md", "---\nname: plain\ndescription: Something else.\n---\n")
            assert await heard(listening) == ResourceUpdated(uri=INDEX)
            after = await read_index(asker)
            assert after["skills"][0] == before["skills"][0]
            assert after["skills"][1]["description"] == "Something else."
            write_skill(root, "third")
            assert await heard(listening) == ResourceUpdated(uri=INDEX)
            assert await skill_names(asker) == ["refunds", "plain", "third"]


@pytest.mark.rule("I10")
@pytest.mark.parametrize("version", OLDER)
async def test_older_clients_that_subscribe_to_the_index_are_told(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    skills = publish(root, watch=True)
    async with asking(make(skills), version) as asker:
        await watching(skills)
        assert await asker.ask("resources/subscribe", {"uri": INDEX}) == {}
        rewrite(root / "plain/logo.png", "another")
        await until(lambda: asker.updated == [INDEX], "the change is told")
        assert await asker.ask("resources/unsubscribe", {"uri": INDEX}) == {}
        rewrite(root / "plain/logo.png", "a third")
        await until(lambda: asker.lists_changed == 2, "something changed again")
        assert asker.updated == [INDEX]


@pytest.mark.rule("I10")
async def test_listening_to_the_index_is_for_everybody_also_where_skills_are_hidden(
    root: Path, publish: Publish
) -> None:
    skills = publish(root, watch=True, visible=lambda _: lambda entry: entry.name == "plain")
    async with asking(low_level(skills), MODERN) as asker:
        assert asker.client is not None
        await watching(skills)
        async with asker.client.listen(resource_subscriptions=[INDEX, REFUNDS]) as listening:
            rewrite(root / "acme/refunds/scripts/run.sh", "another")
            assert await heard(listening) == ResourceUpdated(uri=INDEX)
            assert not listening._route._pending


class Held:
    """Lets the packing thread go on only when it is told to."""

    def __init__(self, skills: Skills) -> None:
        self._go = threading.Event()
        shelf = skills.publisher._shelf
        self._read, shelf._read = shelf._read, self._wait

    def _wait(self, record: FileRecord) -> bytes | None:
        assert self._go.wait(20)
        return self._read(record)

    def release(self) -> None:
        self._go.set()


@pytest.mark.rule("I1", "I10")
async def test_what_takes_long_to_pack_comes_later_and_is_told_then(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_document, "_PATIENCE", 0.01)
    skills = publish(root)
    held = Held(skills)
    async with asking(low_level(skills), MODERN) as asker:
        assert asker.client is not None
        listen = asker.client.listen
        async with listen(resources_list_changed=True, resource_subscriptions=[INDEX]) as listening:
            result = await asker.ask("resources/read", {"uri": INDEX})
            assert result["ttlMs"] == 0  # nobody should keep it
            early = json.loads(result["contents"][0]["text"])
            assert [entry["url"] for entry in early["skills"]] == [REFUNDS, PLAIN]
            assert all("archives" not in entry for entry in early["skills"])
            held.release()
            assert await heard(listening) == ResourceUpdated(uri=INDEX)  # and no list of resources changed
            result = await asker.ask("resources/read", {"uri": INDEX})
            assert result["ttlMs"] == 60000
            late = json.loads(result["contents"][0]["text"])
            assert all(len(entry.pop("archives")) == 2 for entry in late["skills"])
            assert late == early
            assert not listening._route._pending


async def test_readers_who_wait_together_all_get_everything(root: Path, publish: Publish) -> None:
    skills = publish(root)
    held = Held(skills)
    documents: list[dict[str, Any]] = []
    async with asking(low_level(skills), MODERN) as asker, anyio.create_task_group() as group:

        async def read() -> None:
            documents.append(await read_index(asker))

        for _ in range(5):
            group.start_soon(read)
        await until(lambda: skills.publisher._index._thread is not None, "packing has begun")
        held.release()
    assert len(documents) == 5
    assert all(document == documents[0] for document in documents)
    assert all("archives" in entry for entry in documents[0]["skills"])


async def test_a_server_whose_index_nobody_reads_never_packs_anything(root: Path, publish: Publish) -> None:
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        await asker.listing()
        await asker.listing("resources/list", "resources")
        await asker.text(REFUNDS)
        rewrite(root / "plain/SKILL.md", "---\nname: plain\ndescription: Something else.\n---\n")
        await until(lambda: b"Something else" in skills.publisher.live.catalog.listed[-1].text, "it is seen")
    publisher = skills.publisher
    assert publisher._index._thread is None
    assert not publisher._index._entries
    assert not publisher._shelf._kept


@pytest.mark.parametrize("room", [0, 16 * 1024 * 1024])
async def test_only_what_changed_is_packed_again(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Without room on the shelf, whatever of the index is made anew is packed anew."""
    monkeypatch.setattr("skillquay.server.archive_shelf._MOST_KEPT", room)
    packed: list[str] = []

    def noting(files: Any, archive_format: Any) -> bytes:
        packed.append(f"{len(files)} {archive_format}")
        return pack(files, archive_format)

    monkeypatch.setattr("skillquay.server.archive_shelf.pack", noting)
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        before = await read_index(asker)
        refunds, plain = skills.publisher._index._entries.values()
        assert sorted(packed) == ["2 tar.gz", "2 tar.gz", "2 zip", "2 zip"]
        packed.clear()
        assert await read_index(asker) == before
        assert packed == []
        (root / "plain/new.md").write_text("new")
        await until(lambda: b"new.md" in skills.publisher.live.catalog.listed[-1].text, "it is seen")
        after = await read_index(asker)
        assert packed == ["3 tar.gz", "3 zip"]
        kept, renewed = skills.publisher._index._entries.values()
        assert kept is refunds
        assert renewed is not plain
        assert after["skills"][0] == before["skills"][0]
        assert after["skills"][1]["digest"] == before["skills"][1]["digest"]
        for old, new in zip(before["skills"][1]["archives"], after["skills"][1]["archives"], strict=True):
            assert old["url"] == new["url"]
            assert old["digest"] != new["digest"]


async def test_a_skill_that_not_everybody_could_unpack_has_no_archives_and_the_others_do(
    root: Path, publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(root, "odd", {"Guide.md": b"1", "guide.md": b"2"})
    async with asking(low_level(publish(root)), MODERN) as asker:
        entries = {entry["name"]: entry for entry in (await read_index(asker))["skills"]}
        assert {name: "archives" in entry for name, entry in entries.items()} == {
            "refunds": True,
            "odd": False,
            "plain": True,
        }
        assert entries["odd"]["digest"]
        await read_index(asker)
        for _ in range(2):
            assert (await asker.refusal("resources/read", {"uri": "skill://odd.zip"})).code == -32602
    told = [each for each in caplog.messages if "archive" in each]
    assert len(told) == 1
    assert told[0].startswith("skill://odd/SKILL.md is served, but not as an archive: ")


async def test_a_failure_while_packing_one_skill_never_keeps_the_others_out(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(files: Any, archive_format: Any) -> bytes:
        if "logo.png" in files:
            raise MemoryError("the insides")
        return pack(files, archive_format)

    monkeypatch.setattr("skillquay.server.archive_shelf.pack", failing)
    async with asking(low_level(publish(root)), MODERN) as asker:
        refunds, plain = (await read_index(asker))["skills"]
        assert len(refunds["archives"]) == 2
        assert "archives" not in plain
        assert "insides" not in (await asker.refusal("resources/read", {"uri": "skill://plain.zip"})).message
    assert "skill://plain/SKILL.md could not be packed." in caplog.messages


async def test_a_skill_that_changes_before_it_is_packed_is_packed_as_it_is_then(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_document, "_PATIENCE", 0.01)
    packed: list[bytes] = []

    def noting(files: Any, archive_format: Any) -> bytes:
        packed.append(files["SKILL.md"].data)
        return pack(files, archive_format)

    monkeypatch.setattr("skillquay.server.archive_shelf.pack", noting)
    skills = publish(root)
    held = Held(skills)
    async with asking(low_level(skills), MODERN) as asker:
        await read_index(asker)
        new = "---\nname: plain\ndescription: Something else.\n---\n"
        rewrite(root / "plain/SKILL.md", new)
        await anyio.to_thread.run_sync(skills.publisher.live.refresh, [str(root / "plain")])
        assert "archives" not in (await read_index(asker))["skills"][1]
        held.release()
        await until(lambda: skills.publisher._index._packing is None, "all is packed")
        assert all(len(entry["archives"]) == 2 for entry in (await read_index(asker))["skills"])
    refunds = (root / "acme/refunds/SKILL.md").read_bytes()
    assert packed == [refunds, refunds, new.encode(), new.encode()]


async def test_a_skill_with_a_missing_file_is_packed_once_the_file_is_back(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)  # no published bytes are kept
    skills = publish(root)
    index = skills.publisher._index
    told: list[str] = []
    tell = index._on_whole

    def noting() -> None:
        told.append(INDEX)
        tell()

    index._on_whole = noting
    logo = root / "plain/logo.png"
    async with asking(low_level(skills), MODERN) as asker:
        assert asker.client is not None
        await asker.listing()
        logo.rename(root / "logo.png")
        async with asker.client.listen(resource_subscriptions=[INDEX]) as listening:
            for _ in range(3):
                result = await asker.ask("resources/read", {"uri": INDEX})
                assert result["ttlMs"] == 0
                refunds, plain = json.loads(result["contents"][0]["text"])["skills"]
                assert len(refunds["archives"]) == 2
                assert "archives" not in plain
                assert index._thread is not None
                index._thread.join()
            assert told == []  # nothing came that had been missing; who is told would read again
            (root / "logo.png").rename(logo)
            result = await asker.ask("resources/read", {"uri": INDEX})
            assert result["ttlMs"] == 60000
            assert len(json.loads(result["contents"][0]["text"])["skills"][1]["archives"]) == 2
            assert await heard(listening) == ResourceUpdated(uri=INDEX)


async def test_closing_ends_the_packing(root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_document, "_PATIENCE", 0.01)
    skills = publish(root)
    held = Held(skills)
    async with asking(low_level(skills), MODERN) as asker:
        await read_index(asker)
        index = skills.publisher._index
        assert index._thread is not None
        closing = threading.Thread(target=skills.close)
        closing.start()
        await until(lambda: index._is_closed, "it is asked to end")
        held.release()
        closing.join(20)
        assert not index._thread.is_alive()
        assert len(index._queue) == 1  # the second skill was not begun
        assert "archives" not in (await read_index(asker))["skills"][1]  # and is not begun again


# The express way


@pytest.mark.rule("I1", "R1")
async def test_the_index_goes_by_express_once_it_is_whole_and_is_what_the_sdk_answers(root: Path) -> None:
    async with both(root) as server:
        publisher = server.skills.publisher
        assert publisher.index_at_hand(publisher.live.catalog) is None
        first, by_express = await server.ask("resources/read", {"uri": INDEX})  # the SDK is asked before
        assert by_express
        assert isinstance(first, dict)
        assert all("archives" in entry for entry in json.loads(first["contents"][0]["text"])["skills"])
        _, by_express = await server.ask("resources/read", {"uri": "skill://index%2Ejson"})
        assert not by_express
        (root / "plain/SKILL.md").write_text("---\nname: plain\ndescription: Something else.\n---\n")
        await anyio.to_thread.run_sync(publisher.live.refresh, [str(root / "plain")])
        assert publisher.index_at_hand(publisher.live.catalog) is None
        second, by_express = await server.ask("resources/read", {"uri": INDEX})
        assert by_express
        assert second != first


async def test_a_large_index_is_sent_in_pieces_and_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_document, "_PIECE", 3)
    for count in (3, 4, 7):
        for number in range(count):
            write_skill(tmp_path, f"s{number}")
        async with both(tmp_path) as server:
            answer, by_express = await server.ask("resources/read", {"uri": INDEX})
            assert by_express
            assert isinstance(answer, dict)
            assert len(json.loads(answer["contents"][0]["text"])["skills"]) == count


async def test_no_express_without_an_index(root: Path) -> None:
    async with both(root, index=False) as server:
        answer, by_express = await server.ask("resources/read", {"uri": INDEX})
        assert isinstance(answer, dict)
        assert (answer["code"], by_express) == (-32602, False)
