"""What a server speaks is found out from what it declares and answers, in that order, and nothing else is tried."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

from skillquay.core.approvals import Answer
from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.questions import About
from skillquay.errors import EntryError, RefusedError, UnavailableError
from skillquay.host.budgets import Budgets
from skillquay.host.directory import State
from skillquay.wire.index_json import INDEX_URI, SCHEMA
from tests.core.builders import publish, skill_md
from tests.host.scripted import EXTENSION, PATIENT, Person, Scripted, failure, hosting, of_draft

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from skillquay.host.dialects import Spoken
    from skillquay.host.host import SkillHost

pytestmark = pytest.mark.anyio

SKILL = publish({"a.md": b"the word is heron"})
URI = str(SKILL.entry.uri)
FILES = {str(SKILL.uri(path)): data for path, data in SKILL.files.items()}
MAY = {"type": "skill-md", "name": "refunds", "description": "What refunds is for.", "url": URI}
INDEX = {"$schema": SCHEMA, "skills": [MAY]}
MANIFEST = json.dumps(
    {
        "skill": "refunds",
        "files": [
            {"path": path, "size": len(data), "hash": f"sha256:{sha256(data).hexdigest()}"}
            for path, data in SKILL.files.items()
        ],
    }
).encode()
RESOURCES: dict[str, Any] = {"resources": {}}
PRIMITIVE = [{"name": "refunds", "description": "What refunds is for."}]


@pytest.fixture(params=["auto", "legacy"])
def handshake(request: pytest.FixtureRequest) -> str:
    """Each era in turn."""
    chosen: str = request.param
    return chosen


def spoken(host: SkillHost) -> Spoken:
    return host.server_named("acme").dialects.spoken


def methods(server: Scripted) -> list[str]:
    """What was asked, beside the handshake."""
    return [method for method, _ in server.asked if "/" in method and method.split("/")[0] in {"skills", "resources"}]


def problems(host: SkillHost) -> str:
    return " ".join(problem.message for problem in host.problems)


def found(host: SkillHost) -> list[tuple[str, Dialect, Assurance]]:
    return [(skill.name, skill.entry.dialect, skill.entry.assurance) for skill in host.skills if skill.entry]


# I11: v1 first


@pytest.mark.rule("I11")
async def test_a_server_that_answers_v1_is_asked_for_nothing_else(tmp_path: Path, handshake: str) -> None:
    server = Scripted(SKILL)
    server.announces = {"resources": {}, "extensions": {EXTENSION: {}}, "skills": {}, "experimental": {EXTENSION: {}}}
    server.files |= {INDEX_URI: json.dumps(INDEX).encode(), "skill://refunds/_manifest": MANIFEST}
    async with hosting(tmp_path, {"acme": server}, handshake=handshake, scan=["acme"]) as host:
        assert found(host) == [("refunds", Dialect.CURRENT, Assurance.WHOLE)]
        assert methods(server) == ["skills/list"]
        assert spoken(host).dialect is Dialect.CURRENT
        assert spoken(host).reasons[0] == "It declares the extension."


@pytest.mark.rule("I11")
async def test_once_v1_answers_nothing_is_recognised_by_its_scheme(tmp_path: Path, handshake: str) -> None:
    server = Scripted()
    server.files = {**FILES, INDEX_URI: json.dumps(INDEX).encode()}
    server.on["resources/list"] = lambda _: {"resources": [{"uri": URI, "name": "x"}]}
    async with hosting(tmp_path, {"acme": server}, handshake=handshake, scan=["acme"]) as host:
        assert host.skills == ()
        assert methods(server) == ["skills/list"]
        with pytest.raises(UnavailableError, match="No skill is served"):
            await host.read_skill_uri("acme", URI)
        assert server.reads == [], "a file at such a URI is no skill"


@pytest.mark.rule("I11")
@pytest.mark.parametrize("code", [INTERNAL_ERROR, INVALID_PARAMS, -32002, -32000, -32700, 0, 1, -32001])
async def test_no_other_error_of_v1_leads_to_the_index(tmp_path: Path, handshake: str, code: int) -> None:
    server = of_draft(FILES, index=INDEX, listed=[URI])

    def refuse(_: Mapping[str, Any]) -> dict[str, Any]:
        raise failure(code, "Not now.")

    server.on["skills/list"] = refuse
    async with hosting(tmp_path, {"acme": server}, handshake=handshake, scan=["acme"]) as host:
        assert host.skills == ()
        assert len(host.problems) == 1
        assert methods(server) == ["skills/list"]


@pytest.mark.rule("I11")
@pytest.mark.parametrize("answer", [{"skills": None}, {"skills": {}}, {}])
async def test_a_wrong_answer_of_v1_does_not_lead_to_the_index(tmp_path: Path, answer: dict[str, Any]) -> None:
    server = of_draft(FILES, index=INDEX)
    server.on["skills/list"] = lambda _: answer
    async with hosting(tmp_path, {"acme": server}) as host:
        assert host.skills == ()
        assert methods(server) == ["skills/list"]


@pytest.mark.rule("I11", "L3")
async def test_a_listing_that_breaks_off_with_an_unknown_method_stays_v1(tmp_path: Path) -> None:
    server = Scripted(SKILL)
    server.files[INDEX_URI] = json.dumps(INDEX).encode()

    def once(params: Mapping[str, Any]) -> dict[str, Any]:
        if params:
            raise failure(METHOD_NOT_FOUND, "Method not found")
        return {**server._skills_list(params), "nextCursor": "2"}

    server.on["skills/list"] = once
    async with hosting(tmp_path, {"acme": server}) as host:
        assert found(host) == [("refunds", Dialect.CURRENT, Assurance.WHOLE)]
        assert server.reads == []
        assert "broke off" in problems(host)


# I11: the drafts


@pytest.mark.rule("I11", "R3")
@pytest.mark.parametrize(
    ("announces", "asked"),
    [
        ({"resources": {}, "extensions": {EXTENSION: {}}}, ["skills/list", "resources/read"]),
        ({"resources": {}, "experimental": {EXTENSION: {}}}, ["resources/read"]),
        (RESOURCES, ["resources/list", "resources/read"]),
        ({"resources": {}, "extensions": {"com.example/other": {}}}, ["resources/list", "resources/read"]),
    ],
    ids=["extension", "experimental", "nothing", "another extension"],
)
async def test_the_index_is_found_and_nothing_of_a_skill_is_fetched(
    tmp_path: Path, handshake: str, announces: dict[str, Any], asked: list[str]
) -> None:
    server = of_draft(FILES, index=INDEX, announces=announces, listed=["acme://x", str(INDEX_URI), URI])
    async with hosting(tmp_path, {"acme": server}, handshake=handshake) as host:
        assert found(host) == [("refunds", Dialect.MAY, Assurance.NONE)]
        assert methods(server) == asked
        assert server.reads == [INDEX_URI]
        assert (spoken(host).dialect, host.problems) == (Dialect.MAY, ())
        assert spoken(host).reasons[-1] == "It has a skill://index.json of the April-May draft."


@pytest.mark.rule("I7", "I11")
@pytest.mark.parametrize("more", [{}, RESOURCES, {"extensions": {"com.example/other": {}}}], ids=str)
@pytest.mark.parametrize("declared", [{}, {"listChanged": True}], ids=str)
async def test_the_capability_skills_alone_is_the_primitive(
    tmp_path: Path, handshake: str, more: dict[str, Any], declared: dict[str, Any]
) -> None:
    server = of_draft(FILES, index=INDEX, announces={"skills": declared, **more}, listed=[str(INDEX_URI), URI])
    server.on["skills/list"] = lambda _: {"skills": PRIMITIVE}
    async with hosting(tmp_path, {"acme": server}, handshake=handshake) as host:
        assert found(host) == [("refunds", Dialect.PRIMITIVE, Assurance.NONE)]
        assert methods(server) == ["skills/list"]
        assert spoken(host).dialect is Dialect.PRIMITIVE


@pytest.mark.rule("I7", "L4")
async def test_the_primitives_listing_is_taken_page_by_page_and_each_skill_alone(tmp_path: Path) -> None:
    pages: list[list[Any]] = [[PRIMITIVE[0], 7, {"name": "Bad Name"}], [{"name": "returns"}, PRIMITIVE[0]]]
    server = of_draft({}, announces={"skills": {}})
    server.on["skills/list"] = lambda params: (
        {"skills": pages[1]} if params else {"skills": pages[0], "nextCursor": "2"}
    )
    async with hosting(tmp_path, {"acme": server}) as host:
        assert [skill.name for skill in host.skills] == ["refunds", "returns"]
        assert len(host.problems) == 3
        assert "(no name) is refused" in problems(host)
        assert "listed before" in problems(host)


@pytest.mark.rule("L4")
@pytest.mark.parametrize(
    "budgets", [{"entries": 3}, {"pages": 2}, {"listing_bytes": 300}], ids=["entries", "pages", "bytes"]
)
async def test_a_listing_of_primitives_without_end_is_cut_off_and_told(tmp_path: Path, budgets: dict[str, int]) -> None:
    server = of_draft({}, announces={"skills": {}})

    def page(params: Mapping[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        skills = [{"name": f"s{number}-{each}", "description": "x"} for each in "ab"]
        return {"skills": skills, "nextCursor": str(number + 1)}

    server.on["skills/list"] = page
    async with hosting(tmp_path, {"acme": server}, budgets=Budgets(discovery=30, **budgets)) as host:
        assert 2 <= len(host.skills) <= 4
        assert server.count("skills/list") <= 3
        assert "longer than this host takes" in problems(host)


@pytest.mark.rule("I11")
@pytest.mark.parametrize("announces", [{}, {"tools": {}}, {"extensions": {"com.example/other": {}}}], ids=str)
async def test_nothing_is_asked_of_a_server_without_skills_and_resources(
    tmp_path: Path, handshake: str, announces: dict[str, Any]
) -> None:
    server = of_draft(FILES, index=INDEX, announces=announces, listed=[str(INDEX_URI)])
    async with hosting(tmp_path, {"acme": server}, handshake=handshake, scan=["acme"]) as host:
        assert (host.skills, methods(server), host.problems) == ((), [], ())
        assert "no resources" in spoken(host).reasons[-1]
        assert host.prompt_block() == ""


@pytest.mark.rule("I11", "C4")
async def test_a_server_that_declares_nothing_is_never_asked_for_skills(tmp_path: Path, handshake: str) -> None:
    server = of_draft(FILES, announces=RESOURCES, listed=[URI])
    async with hosting(tmp_path, {"acme": server}, handshake=handshake) as host:
        assert methods(server) == ["resources/list"]
        assert host.problems == ()
        with pytest.raises(UnavailableError, match="does not declare"):
            await host.read_skill_uri("acme", URI)
        assert server.reads == []


@pytest.mark.parametrize("code", [METHOD_NOT_FOUND, INTERNAL_ERROR])
async def test_a_server_that_cannot_list_its_resources_has_no_skills_and_no_problem(tmp_path: Path, code: int) -> None:
    server = of_draft(FILES, announces=RESOURCES)

    def refuse(_: Mapping[str, Any]) -> dict[str, Any]:
        raise failure(code, "Never.")

    server.on["resources/list"] = refuse
    async with hosting(tmp_path, {"acme": server}) as host:
        assert (host.skills, host.problems) == ((), ())
        assert "could not be listed" in spoken(host).reasons[-1]


async def test_of_a_server_that_declares_nothing_only_the_first_pages_are_looked_at(tmp_path: Path) -> None:
    server = of_draft(FILES, announces=RESOURCES)
    server.on["resources/list"] = lambda _: {"resources": [{"uri": "acme://x", "name": "x"}], "nextCursor": "again"}
    async with hosting(tmp_path, {"acme": server}) as host:
        assert server.count("resources/list") == 4
        assert host.problems == ()


# I11: no index


@pytest.mark.rule("I8", "I9", "I11")
@pytest.mark.parametrize("announces", [None, {"resources": {}, "experimental": {EXTENSION: {}}}, RESOURCES], ids=str)
async def test_fastmcps_manifests_are_read_without_leave_and_prove_every_file(
    tmp_path: Path, handshake: str, announces: dict[str, Any] | None
) -> None:
    listed = [{"uri": URI, "description": "What refunds is for."}, "skill://refunds/_manifest", "skill://bare/SKILL.md"]
    files = {**FILES, "skill://refunds/_manifest": MANIFEST}
    server, person = of_draft(files, announces=announces, listed=listed), Person()
    async with hosting(tmp_path, {"acme": server}, person, handshake=handshake) as host:
        assert found(host) == [("refunds", Dialect.FASTMCP, Assurance.WHOLE)]
        assert URI not in server.reads
        assert "Refund politely." in await host.read_skill("refunds")
        assert "heron" in await host.read_skill_file("refunds", "a.md")
        assert person.asked[0].can_be_kept
    async with hosting(tmp_path, {"acme": server}, person, handshake=handshake) as host:
        assert host.find("refunds").state is State.APPROVED
        await host.read_skill("refunds")
        assert len(person.asked) == 1


@pytest.mark.rule("I8", "E5")
async def test_a_manifest_that_fails_loses_its_skill_alone(tmp_path: Path) -> None:
    listed = [f"skill://{name}/{file}" for name in ("refunds", "bad", "gone") for file in ("SKILL.md", "_manifest")]
    server = of_draft({**FILES, "skill://refunds/_manifest": MANIFEST, "skill://bad/_manifest": b"{"}, listed=listed)
    async with hosting(tmp_path, {"acme": server}) as host:
        assert [skill.name for skill in host.skills] == ["refunds"]
        assert "skill://bad/SKILL.md is refused: _manifest: is not JSON." in problems(host)
        assert "skill://gone/SKILL.md is refused" in problems(host)


@pytest.mark.rule("A2", "I8")
@pytest.mark.parametrize(("fails", "state"), [("invalid", State.CHANGED), ("unread", State.APPROVED)])
async def test_an_answer_ends_with_an_invalid_manifest_and_not_with_one_that_could_not_be_read(
    tmp_path: Path, fails: str, state: State
) -> None:
    server = of_draft({**FILES, "skill://refunds/_manifest": MANIFEST}, listed=[URI, "skill://refunds/_manifest"])
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.people.answer("refunds", About.LOAD, Answer.ALLOW)
        if fails == "invalid":
            server.files["skill://refunds/_manifest"] = b"{}"
        else:
            del server.files["skill://refunds/_manifest"]
        await host.refresh(anew=True)
        assert host.skills == ()
        server.files["skill://refunds/_manifest"] = MANIFEST
        await host.refresh(anew=True)
        assert (host.find("refunds").state is State.APPROVED) == (state is State.APPROVED)


@pytest.mark.rule("I8", "V3")
async def test_a_file_that_does_not_fit_its_manifest_leads_to_the_manifest_again_and_once(tmp_path: Path) -> None:
    server = of_draft({**FILES, "skill://refunds/_manifest": MANIFEST}, listed=[URI, "skill://refunds/_manifest"])
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")
        server.files["skill://refunds/a.md"] = b"the word is boar."
        before = len(server.reads)
        with pytest.raises(Exception, match="does not match its entry"):
            await host.read_skill_file("refunds", "a.md")
        assert server.reads[before:] == ["skill://refunds/a.md", "skill://refunds/_manifest"]


@pytest.mark.rule("I9", "I11")
@pytest.mark.parametrize("announces", [None, {"resources": {}, "experimental": {EXTENSION: {}}}, RESOURCES], ids=str)
async def test_bare_files_are_skills_only_with_leave(
    tmp_path: Path, handshake: str, announces: dict[str, Any] | None
) -> None:
    server = of_draft(FILES, announces=announces, listed=[URI, "skill://refunds/a.md"])
    async with hosting(tmp_path, {"acme": server}, handshake=handshake, scan=["other"]) as host:
        assert host.skills == ()
        reason = "It lists 1 SKILL.md file among its resources, and may not be searched for it."
        assert (spoken(host).reasons[-1], spoken(host).unsearched) == (reason, 1)
    person = Person()
    async with hosting(tmp_path, {"acme": server}, person, handshake=handshake, scan=["acme"]) as host:
        assert found(host) == [("refunds", Dialect.BARE, Assurance.NONE)]
        assert URI not in server.reads
        assert "Refund politely." in await host.read_skill("refunds")
        assert "bare SKILL.md resources: no digest covers its files" in person.shown


@pytest.mark.rule("I6", "L3")
async def test_a_draft_without_index_still_reads_a_skill_by_its_uri(tmp_path: Path, handshake: str) -> None:
    server, person = of_draft(FILES), Person()
    async with hosting(tmp_path, {"acme": server}, person, handshake=handshake) as host:
        assert host.skills == ()
        assert "Refund politely." in await host.read_skill_uri("acme", URI)
        assert "no digest covers its files" in person.shown


@pytest.mark.rule("I11", "P4")
async def test_leave_is_given_in_the_configuration_of_a_server_for_that_one_alone(tmp_path: Path) -> None:
    from skillquay.host.configuration import HttpServer

    allowed, other = HttpServer(url="http://127.0.0.1:1/mcp", may_scan=True), HttpServer(url="http://127.0.0.1:2/mcp")
    budgets = Budgets(discovery=0.01)
    async with hosting(tmp_path, {"a": allowed, "b": other, "c": other}, budgets=budgets, scan=["c"]) as host:
        assert [host.server_named(label).dialects._may_scan for label in "abc"] == [True, False, True]


# What was found out may change


@pytest.mark.rule("I11")
async def test_a_server_is_found_out_anew_with_each_listing(tmp_path: Path) -> None:
    server = of_draft(FILES, index=INDEX)
    async with hosting(tmp_path, {"acme": server}) as host:
        assert found(host) == [("refunds", Dialect.MAY, Assurance.NONE)]
        server.on.clear()
        server.publish(SKILL)
        await host.refresh(anew=True)
        assert found(host) == [("refunds", Dialect.CURRENT, Assurance.WHOLE)]


@pytest.mark.rule("I11")
async def test_skills_are_got_in_the_dialect_of_the_last_listing_while_the_next_is_made(tmp_path: Path) -> None:
    server, waiting, go = of_draft(FILES, index=INDEX), anyio.Event(), anyio.Event()
    async with hosting(tmp_path, {"acme": server}, Person()) as host, anyio.create_task_group() as tasks:
        unknown = server.on["skills/list"]

        async def slowly(params: Mapping[str, Any]) -> dict[str, Any]:
            waiting.set()
            await go.wait()
            return unknown(params)  # type: ignore[return-value]

        server.on["skills/list"] = slowly
        tasks.start_soon(lambda: host.refresh(anew=True))
        with anyio.fail_after(PATIENT.call):
            await waiting.wait()
            assert "Refund politely." in await host.read_skill("refunds")
        go.set()
    assert server.count("skills/get") == 0


# I6: by URI


@pytest.mark.rule("I6", "L3", "L7")
async def test_a_skill_that_is_not_in_the_index_is_read_directly(tmp_path: Path, handshake: str) -> None:
    other = {"skill://hidden/returns/SKILL.md": skill_md("returns", body="Return it.\n")}
    server, person = of_draft({**FILES, **other}, index=INDEX), Person()
    async with hosting(tmp_path, {"acme": server}, person, handshake=handshake) as host:
        text = await host.read_skill_uri("acme", "skill://hidden/returns/SKILL.md")
        assert "Return it." in text
        assert 'content="not verified; no digest covers its files"' in text
        assert not person.asked[0].can_be_kept
        assert found(host)[-1] == ("returns", Dialect.MAY, Assurance.NONE)
        for uri in ("skill://nowhere/SKILL.md", "acme://x/returns/SKILL.md", "skill://hidden/returns"):
            with pytest.raises(UnavailableError):
                await host.read_skill_uri("acme", uri)
        assert "acme://x/returns/SKILL.md" not in server.reads, "only the index makes a skill of another scheme"


@pytest.mark.rule("I6")
@pytest.mark.parametrize("data", [b"no frontmatter", skill_md("other"), b"---\nname: returns\n---\n"])
async def test_what_is_read_directly_and_is_no_skill_is_refused(tmp_path: Path, data: bytes) -> None:
    server = of_draft({"skill://returns/SKILL.md": data}, index=INDEX)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        with pytest.raises(EntryError):
            await host.read_skill_uri("acme", "skill://returns/SKILL.md")


@pytest.mark.rule("I6", "I11")
@pytest.mark.parametrize("kind", ["FastMCP", "bare", "SEP-2076"])
async def test_other_dialects_have_no_skills_beside_those_they_list(tmp_path: Path, kind: str) -> None:
    other = {"skill://returns/SKILL.md": skill_md("returns")}
    server = of_draft({**FILES, **other, "skill://refunds/_manifest": MANIFEST}, listed=[URI])
    if kind == "FastMCP":
        server.on["resources/list"] = lambda _: {
            "resources": [{"uri": uri, "name": "x"} for uri in (URI, "skill://refunds/_manifest")]
        }
    elif kind == "SEP-2076":
        server.announces = {"skills": {}, "resources": {}}
        server.on["skills/list"] = lambda _: {"skills": PRIMITIVE}
    async with hosting(tmp_path, {"acme": server}, Person(), scan=["acme"]) as host:
        assert [skill.name for skill in host.skills] == ["refunds"]
        with pytest.raises(UnavailableError, match="has no skill at"):
            await host.read_skill_uri("acme", "skill://returns/SKILL.md")
        assert "skill://returns/SKILL.md" not in server.reads


@pytest.mark.rule("I6", "L5")
async def test_a_skill_of_a_native_scheme_is_used_through_the_index(tmp_path: Path) -> None:
    root = "github://acme/tools/skills/refunds"
    files = {f"{root}/{path}": data for path, data in SKILL.files.items()}
    server = of_draft(files, index={"skills": [{**MAY, "url": f"{root}/SKILL.md"}]})
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        assert "Refund politely." in await host.read_skill("refunds")
        assert "heron" in await host.read_skill_file("refunds", "a.md")
        assert server.reads[-2:] == [f"{root}/SKILL.md", f"{root}/a.md"]


# Bad indexes: each entry alone, and never more than a problem


@pytest.mark.rule("I1", "I2", "E5")
async def test_bad_entries_are_told_one_by_one_and_the_others_work(tmp_path: Path) -> None:
    digest = f"sha256:{sha256(SKILL.skill_md).hexdigest()}"
    bad = [7, {"type": "skill-md"}, {"frontmatter": {}}, {**MAY, "url": "file:///x/refunds/SKILL.md"}]
    colliding = [
        {
            "frontmatter": {"name": "packed", "description": "x"},
            "archives": [{"url": f"skill://{n}.zip", "digest": digest}],
        }
        for n in "ab"
    ]
    server = of_draft(FILES, index={"skills": [*bad, MAY, MAY, *colliding, {"type": "future"}]})
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        assert [skill.name for skill in host.skills] == ["refunds"]
        assert len(host.problems) == len(bad) + 1 + 2
        assert "Refund politely." in await host.read_skill("refunds")
        server.announces = None
        await host.read_skill("refunds")
    assert problems(host).count("is listed more than once") == 2


@pytest.mark.rule("E5")
async def test_a_skill_that_is_listed_twice_can_be_got_anew(tmp_path: Path) -> None:
    server = of_draft(FILES, index={"skills": [MAY, MAY]})
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        host.server_named("acme").connection.changed = True
        assert "Refund politely." in await host.read_skill("refunds")


@pytest.mark.rule("I1")
@pytest.mark.parametrize(
    "data", [b"not JSON", b"[]", b'{"skills": 1}', b"[" * 100_000, b"\xff\xfe"], ids=lambda d: d[:9]
)
async def test_an_index_that_is_none_is_told_as_a_problem(tmp_path: Path, data: bytes) -> None:
    server = of_draft({**FILES, INDEX_URI: data}, listed=[URI])
    async with hosting(tmp_path, {"acme": server}, scan=["acme"]) as host:
        assert host.skills == ()
        assert "skill://index.json" in problems(host)
        assert server.count("resources/list") == 0, "it has an index"


@pytest.mark.rule("I11")
async def test_an_index_that_could_not_be_read_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    server = of_draft(FILES, listed=[URI])

    def refuse(_: Mapping[str, Any]) -> dict[str, Any]:
        raise failure(INTERNAL_ERROR, "The disk is on fire.")

    server.on["resources/read"] = refuse
    async with hosting(tmp_path, {"acme": server}, scan=["acme"]) as host:
        assert host.skills == ()
        assert "on fire" in problems(host)
        assert server.count("resources/list") == 0


@pytest.mark.rule("I11")
@pytest.mark.parametrize("code", [INVALID_PARAMS, -32002, METHOD_NOT_FOUND, 0])
async def test_a_missing_index_leads_on_whatever_the_server_calls_it(tmp_path: Path, code: int) -> None:
    server = of_draft(FILES, listed=[URI])

    def refuse(_: Mapping[str, Any]) -> dict[str, Any]:
        raise failure(code, "Unknown resource.")

    server.on["resources/read"] = refuse
    async with hosting(tmp_path, {"acme": server}, scan=["acme"]) as host:
        assert found(host) == [("refunds", Dialect.BARE, Assurance.NONE)]


@pytest.mark.rule("L4")
async def test_of_an_index_that_is_too_long_the_first_skills_are_used_and_it_is_told(tmp_path: Path) -> None:
    many = [{**MAY, "url": f"skill://s{number}/refunds/SKILL.md"} for number in range(5)]
    server = of_draft(FILES, index={"skills": many})
    async with hosting(tmp_path, {"acme": server}, budgets=Budgets(discovery=30, entries=3)) as host:
        assert len(host.skills) == 3
        assert "more than 3 skills" in problems(host)


@pytest.mark.rule("I5")
async def test_templates_are_for_people_and_never_for_the_model(tmp_path: Path) -> None:
    template = {"type": "mcp-resource-template", "description": "Heron docs.", "url": "skill://docs/{product}/SKILL.md"}
    server = of_draft(FILES, index={"skills": [MAY, template]})
    async with hosting(tmp_path, {"acme": server}) as host:
        (shown,) = await host.templates("acme")
        assert (shown.description, shown.variables) == ("Heron docs.", ("product",))
        assert await host.complete_template("acme", shown, "product") == [], "it declares no completions"
        assert host.problems == ()
        assert "Heron" not in host.prompt_block()
        assert await host.search_skills("heron docs product") == ()


@pytest.mark.rule("I5", "A5")
async def test_the_values_of_a_template_come_from_its_server_unless_that_is_disabled(tmp_path: Path) -> None:
    template = {"type": "mcp-resource-template", "description": "Docs.", "url": "skill://docs/{product}/SKILL.md"}
    server = of_draft(FILES, index={"skills": [MAY, template]})
    server.announces = {"resources": {}, "completions": {}, "extensions": {EXTENSION: {}}}

    def complete(params: Mapping[str, Any]) -> dict[str, Any]:
        assert params["ref"] == {"type": "ref/resource", "uri": template["url"]}
        known = ["heron", "hawk"]
        values = [each for each in known if each.startswith(params["argument"]["value"])]
        return {"resultType": "complete", "completion": {"values": values}}

    server.on["completion/complete"] = complete
    async with hosting(tmp_path, {"acme": server}) as host:
        (shown,) = await host.templates("acme")
        assert await host.complete_template("acme", shown, "product") == ["heron", "hawk"]
        assert await host.complete_template("acme", shown, "product", "he") == ["heron"]
        await host.people.switch("acme", on=False)
        for asked in (host.templates("acme"), host.complete_template("acme", shown, "product")):
            with pytest.raises(RefusedError):
                await asked
