"""Skills that a function makes for the values in a URI: found by template, completed, and read like any other."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp_types import Completion

from skillquay.core.entries import DYNAMIC
from skillquay.server import templates
from tests.server.asking import MODERN, OLDER, asking, low_level, mcp_server, write_skill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skillquay.server.extension import Skills
    from tests.server.asking import Asker
    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

TEMPLATE = "skill://docs/{product}/SKILL.md"
ROUTER = "skill://docs/router/SKILL.md"


def skill_md(name: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: About {name}.\n{more}---\nRead guide.md.\n"


def docs(product: str) -> dict[str, str | bytes]:
    """How to use a product.

    And more, which is not shown.
    """
    if product not in {"router", "switch"}:
        raise KeyError(product)
    return {"SKILL.md": skill_md(product), "guides/guide.md": f"The {product}.\n"}


async def docs_later(product: str) -> dict[str, str | bytes]:
    """How to use a product."""
    return docs(product)


@pytest.fixture(params=[docs, docs_later])
def skills(request: pytest.FixtureRequest, publish: Publish) -> Skills:
    skills = publish()
    skills.skill("docs/{product}", complete={"product": ["router", "switch"]})(request.param)
    return skills


async def completed(asker: Asker, value: str, *, uri: str = TEMPLATE, name: str = "product") -> Any:
    params = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": name, "value": value}}
    return (await asker.ask("completion/complete", params))["completion"]


# Listing and reading


@pytest.mark.rule("I5")
async def test_a_template_is_listed_with_what_its_function_says(skills: Skills, make: Make, version: str) -> None:
    async with asking(make(skills), version) as asker:
        (template,) = (await asker.ask("resources/templates/list"))["resourceTemplates"]
        assert template == {
            "uriTemplate": TEMPLATE,
            "name": "docs/{product}",
            "description": "How to use a product.",
            "mimeType": "text/markdown",
        }
        assert asker.capabilities.completions is not None
        assert await asker.listing() == []


@pytest.mark.rule("I5", "L3")
async def test_a_skill_is_made_for_the_values_in_its_uri(skills: Skills, make: Make, version: str) -> None:
    async with asking(make(skills), version) as asker:
        assert await asker.text(ROUTER) == skill_md("router")
        assert await asker.text("skill://docs/switch/guides/guide.md") == "The switch.\n"
        assert await asker.text("skill://docs/r%6Futer/SKILL.md") == skill_md("router")
        assert (await asker.ask("skills/get", {"uri": ROUTER}))["skill"] == {
            "uri": ROUTER,
            "frontmatter": {"name": "router", "description": "About router."},
            "resources": DYNAMIC,
        }
        root, inner = [
            (await asker.ask("resources/directory/read", {"uri": uri}))["resources"]
            for uri in ("skill://docs/router", "skill://docs/router/guides")
        ]
        assert [(each["uri"], each["name"], each["mimeType"]) for each in root] == [
            (ROUTER, "router", "text/markdown"),
            ("skill://docs/router/guides", "guides", "inode/directory"),
        ]
        assert [each["uri"] for each in inner] == ["skill://docs/router/guides/guide.md"]
        assert await asker.listing() == []


@pytest.mark.rule("I5", "U3", "B3")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://docs/hub/SKILL.md",
        "skill://docs/Router/SKILL.md",
        "skill://docs/router/gone.md",
        "skill://docs/router/guides",
        "skill://docs/router",
        "skill://docs",
        "skill://docs/SKILL.md",
        "skill://other/router/SKILL.md",
        "skill://docs/a/router/SKILL.md",
        "skill://docs/../router/SKILL.md",
        "skill://docs/..%2Frouter/SKILL.md",
        "skill://docs/x%0Adescription:%20evil/SKILL.md",
        "skill://docs/{product}/SKILL.md",
        "other://docs/router/SKILL.md",
        f"skill://docs/{'x' * 4000}/SKILL.md",
        f"skill://docs/{'x' * 1_000_000}/SKILL.md",
    ],
)
async def test_a_uri_without_a_skill_is_no_resource(skills: Skills, uri: str) -> None:
    for version in (MODERN, OLDER[0]):
        async with asking(low_level(skills), version) as asker:
            refusal = await asker.refusal("resources/read", {"uri": uri})
            assert refusal.code == (-32602 if version == MODERN else -32002)
            assert (await asker.refusal("skills/get", {"uri": uri})).code == -32602


@pytest.mark.rule("I5", "B3")
async def test_values_that_cannot_be_a_name_never_reach_the_function(publish: Publish) -> None:
    asked: list[tuple[str, str]] = []

    def make(team: str, product: str) -> str:
        asked.append((team, product))
        return skill_md(product)

    skills = publish()
    skills.skill("{team}/{product}")(make)
    async with asking(low_level(skills), MODERN) as asker:
        for name in ("Bad", "a--b", "a%20b", "a:b", "x" * 65, "-a"):
            await asker.refusal("resources/read", {"uri": f"skill://team/{name}/SKILL.md"})
        assert asked == []
        assert await asker.text("skill://R&D/good/SKILL.md") == skill_md("good")
        assert asked == [("R&D", "good")]


@pytest.mark.rule("I5", "B3")
async def test_a_function_that_fails_is_the_servers_failure_without_its_insides(publish: Publish, version: str) -> None:
    def make(product: str) -> Any:
        if product == "boom":
            raise RuntimeError("a secret of the author")
        return {"wrong": skill_md("other"), "number": 5}.get(product, {"a.md": "no SKILL.md"})

    skills = publish()
    skills.skill("docs/{product}")(make)
    async with asking(low_level(skills), version) as asker:
        for product in ("boom", "wrong", "number", "none"):
            for method in ("resources/read", "skills/get"):
                refusal = await asker.refusal(method, {"uri": f"skill://docs/{product}/SKILL.md"})
                assert refusal.code == -32603
                assert "secret" not in refusal.message


@pytest.mark.rule("I5")
async def test_what_an_asker_may_not_see_is_not_made_for_them(publish: Publish, version: str) -> None:
    skills = publish(visible=lambda ctx: lambda entry: entry.name != "router")
    skills.skill("docs/{product}")(docs)
    async with asking(low_level(skills), version) as asker:
        assert await asker.text("skill://docs/switch/SKILL.md") == skill_md("switch")
        await asker.refusal("resources/read", {"uri": ROUTER})
        assert (await asker.refusal("skills/get", {"uri": ROUTER})).code == -32602
        assert (await asker.refusal("resources/directory/read", {"uri": "skill://docs/router"})).code == -32602


@pytest.mark.rule("I5")
async def test_a_published_skill_has_its_directory_to_itself(
    tmp_path: Path, publish: Publish, make: Make, version: str
) -> None:
    write_skill(tmp_path, "docs/router", {"a.md": b"on disk"})
    skills = publish(tmp_path)
    skills.skill("docs/{product}")(docs)
    async with asking(make(skills), version) as asker:
        assert await asker.text("skill://docs/router/a.md") == "on disk"
        assert (await asker.ask("skills/get", {"uri": ROUTER}))["skill"]["resources"] != DYNAMIC
        await asker.refusal("resources/read", {"uri": "skill://docs/router/guides/guide.md"})
        assert await asker.text("skill://docs/switch/guides/guide.md") == "The switch.\n"


@pytest.mark.rule("I5", "I2")
async def test_templates_stand_at_the_end_of_the_index(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path, "zebra")
    skills = publish(tmp_path)
    skills.skill("docs/{product}")(docs)
    skills.skill("more/{name}", description="More of it.")(lambda name: f"{skill_md(name)}")
    async with asking(low_level(skills), MODERN) as asker:
        document = json.loads(await asker.text("skill://index.json"))
    assert [each["type"] for each in document["skills"]] == ["skill-md", *["mcp-resource-template"] * 2]
    assert document["skills"][1:] == [
        {"type": "mcp-resource-template", "description": "How to use a product.", "url": TEMPLATE},
        {"type": "mcp-resource-template", "description": "More of it.", "url": "skill://more/{name}/SKILL.md"},
    ]


@pytest.mark.rule("I5")
async def test_templates_of_another_set_of_skills_are_published_too(skills: Skills, publish: Publish) -> None:
    both = publish()
    both.include(skills)
    async with asking(low_level(both), MODERN) as asker:
        assert await asker.text(ROUTER) == skill_md("router")
    with pytest.raises(ValueError, match="has a function already"):
        publish_again(publish, skills)


def publish_again(publish: Publish, skills: Skills) -> None:
    both = publish()
    both.skill("docs/{product}")(docs)
    both.include(skills)


@pytest.mark.rule("I5")
async def test_the_authors_templates_and_completions_come_first_and_stay_the_authors(
    skills: Skills, version: str
) -> None:
    server = mcp_server(skills)
    server.resource("config://{name}", name="config")(lambda name: name)

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=["the author's"])

    async with asking(server, version) as asker:
        listed = (await asker.ask("resources/templates/list"))["resourceTemplates"]
        assert [each["uriTemplate"] for each in listed] == ["config://{name}", TEMPLATE]
        assert (await completed(asker, "x", uri="config://{name}", name="name"))["values"] == ["the author's"]
        assert (await completed(asker, "r"))["values"] == ["router"]
        assert await asker.text("config://x") == "x"


@pytest.mark.rule("I5")
async def test_without_templates_nothing_is_declared_and_nothing_completed(
    publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish()), version) as asker:
        assert asker.capabilities.completions is None
        assert (await asker.ask("resources/templates/list"))["resourceTemplates"] == []
        params = {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "product", "value": ""}}
        assert (await asker.refusal("completion/complete", params)).code == -32601


# Completion


async def typed_so_far(value: str) -> list[str]:
    return [f"{value}-1", f"{value}-2", "other"]


@pytest.mark.rule("I5")
@pytest.mark.parametrize(
    ("values", "value", "expected", "total"),
    [
        (["router", "switch"], "", ["router", "switch"], 2),
        (["router", "switch"], "sw", ["switch"], 1),
        (("router", "switch"), "x", [], 0),
        ([f"p{number:03}" for number in range(150)], "p", [f"p{number:03}" for number in range(100)], 150),
        ([f"p{number:03}" for number in range(100)], "", [f"p{number:03}" for number in range(100)], 100),
        (typed_so_far, "ro", ["ro-1", "ro-2"], 2),
        (lambda value: [value + "!"], "ro", ["ro!"], 1),
        (None, "r", [], 0),
    ],
)
async def test_values_that_begin_with_what_was_typed_are_offered(
    publish: Publish, make: Make, values: Any, value: str, expected: list[str], total: int
) -> None:
    skills = publish()
    skills.skill("docs/{product}", complete=None if values is None else {"product": values})(docs)
    for version in (MODERN, OLDER[1]):
        async with asking(make(skills), version) as asker:
            found = {"values": expected, "total": total, "hasMore": total > len(expected)}
            assert await completed(asker, value) == found


@pytest.mark.rule("I5")
async def test_only_values_are_offered_whose_skill_the_asker_may_see(
    tmp_path: Path, publish: Publish, make: Make, version: str
) -> None:
    write_skill(tmp_path, "docs/hub")
    write_skill(tmp_path, "docs/secret")
    asked: list[str] = []

    def visible(ctx: Any) -> Callable[[Any], bool]:
        asked.append(ctx.method)
        return lambda entry: entry.name not in {"router", "secret"}

    def product_docs(product: str) -> Any:
        if product == "boom":
            raise RuntimeError("the insides")
        return 5 if product == "number" else docs(product)

    values = ["router", "switch", "hub", "secret", "gone", "Bad Name", "a/b", "..", "\ud800", "boom", "number"]
    skills = publish(tmp_path, visible=visible)
    skills.skill("docs/{product}", complete={"product": values})(product_docs)
    async with asking(make(skills), version) as asker:
        asked.clear()
        assert await completed(asker, "") == {"values": ["switch", "hub"]}  # nor how many there are besides
        assert asked == ["completion/complete"]
        assert await completed(asker, "sw") == {"values": ["switch"]}
        assert await completed(asker, "r") == {"values": []}
        for value in ("switch", "hub"):
            assert await asker.text(f"skill://docs/{value}/SKILL.md")


@pytest.mark.rule("I5")
async def test_where_skills_are_hidden_a_value_is_offered_once_the_other_values_are_known(publish: Publish) -> None:
    skills = publish(visible=lambda _: lambda entry: entry.frontmatter["team"] == "a")
    complete = {"team": ["a", "b"], "product": ["router", "switch"]}
    skills.skill("{team}/{product}", complete=complete)(lambda team, product: skill_md(product, f"team: {team}\n"))
    async with asking(low_level(skills), MODERN) as asker:

        async def offered(name: str, given: dict[str, str] | None) -> Any:
            reference = {"type": "ref/resource", "uri": "skill://{team}/{product}/SKILL.md"}
            params: dict[str, Any] = {"ref": reference, "argument": {"name": name, "value": ""}}
            if given is not None:
                params["context"] = {"arguments": given}
            return (await asker.ask("completion/complete", params))["completion"]["values"]

        assert await offered("team", None) == []
        assert await offered("product", {}) == []
        assert await offered("product", {"other": "x", "product": "y"}) == []
        assert await offered("team", {"product": "router"}) == ["a"]
        assert await offered("product", {"team": "a", "product": "router"}) == ["router", "switch"]
        assert await offered("product", {"team": "b"}) == []
        assert await offered("product", {"team": "a/../b"}) == []
        started = time.process_time()
        assert (
            await offered("product", {"team": "a" * 1_000_000, **{f"x{number}": "" for number in range(50_000)}}) == []
        )
        assert time.process_time() - started < 5


@pytest.mark.rule("I5", "B3")
async def test_finding_out_what_may_be_seen_makes_few_skills_and_ends(
    publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    async def slow(product: str) -> str:
        made.append(product)
        if product == "p120":
            await anyio.sleep_forever()
        return skill_md(product)

    skills = publish(visible=lambda _: lambda entry: entry.name > "p050")
    names = [f"p{number:03}" for number in range(150)]
    skills.skill("docs/{product}", complete={"product": names})(slow)
    async with asking(low_level(skills), MODERN) as asker:
        assert await completed(asker, "p") == {"values": names[51:100]}
        assert made == names[:100]
        monkeypatch.setattr(templates, "_LOOKING", 0.2)
        assert (await completed(asker, "p12"))["values"] == []


@pytest.mark.rule("I5")
async def test_a_failure_to_say_who_may_see_what_offers_nothing(publish: Publish) -> None:
    for visible in (lambda _: 1 / 0, lambda _: lambda entry: 1 / 0):
        skills = publish(visible=visible)
        skills.skill("docs/{product}", complete={"product": ["router"]})(docs)
        async with asking(low_level(skills), MODERN) as asker:
            params = {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "product", "value": ""}}
            assert (await asker.refusal("completion/complete", params)).code == -32603


@pytest.mark.rule("I5")
async def test_a_template_makes_nothing_at_the_name_of_a_published_skill_that_is_hidden(
    tmp_path: Path, publish: Publish
) -> None:
    write_skill(tmp_path, "docs/router", {}, "team: a")
    skills = publish(tmp_path, visible=lambda _: lambda entry: "team" not in entry.frontmatter)
    skills.skill("docs/{product}")(docs)
    async with asking(low_level(skills), MODERN) as asker:
        await asker.refusal("resources/read", {"uri": ROUTER})
        assert await asker.text("skill://docs/switch/SKILL.md") == skill_md("switch")


@pytest.mark.rule("I5", "B3")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": 5},
        {"ref": {"type": "ref/resource"}},
        {"ref": {"type": "ref/resource", "uri": 5}, "argument": {"name": "product", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": "skill://gone/{x}"}, "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "product", "value": ""}},
        {"ref": {"type": "ref/prompt", "uri": TEMPLATE}, "argument": {"name": "product", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}},
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "product"}},
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": 5, "value": ""}},
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "product", "value": 5}},
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "gone", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "x" * 1_000_000, "value": ""}},
    ],
)
async def test_a_completion_that_cannot_be_is_refused(publish: Publish, params: dict[str, Any]) -> None:
    skills = publish()
    skills.skill("docs/{product}")(docs)
    for version in (MODERN, OLDER[0]):
        async with asking(low_level(skills), version) as asker:
            assert (await asker.refusal("completion/complete", params)).code == -32602


@pytest.mark.rule("I5", "B3")
@pytest.mark.parametrize("values", [lambda value: 1 / 0, lambda value: "text", lambda value: [5], lambda value: None])
async def test_a_function_for_completion_that_fails_is_the_servers_failure(
    publish: Publish, values: Callable[[str], Any]
) -> None:
    skills = publish()
    skills.skill("docs/{product}", complete={"product": values})(docs)
    async with asking(low_level(skills), MODERN) as asker:
        params = {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "product", "value": ""}}
        refusal = await asker.refusal("completion/complete", params)
        assert (refusal.code, refusal.message) == (-32603, "The server could not answer. Its log says why.")


# Registration


@pytest.mark.rule("I5")
@pytest.mark.parametrize(
    ("path", "function", "complete", "expected"),
    [
        ("docs/{product", docs, None, "is neither plain text nor one"),
        ("docs/product}", docs, None, "is neither plain text nor one"),
        ("docs/{}", docs, None, "is neither plain text nor one"),
        ("docs/{+product}", docs, None, "is neither plain text nor one"),
        ("docs/{product*}", docs, None, "is neither plain text nor one"),
        ("docs/{a,b}", docs, None, "is neither plain text nor one"),
        ("docs/v-{product}", docs, None, "is neither plain text nor one"),
        ("docs/{product}{more}", docs, None, "is neither plain text nor one"),
        ("{product}/{product}", docs, None, "has the same variable twice"),
        ("{product}/Bad Name", docs, None, "is the skill's name, and may have only"),
        ("../{product}", docs, None, "cannot be a template"),
        ("a//{product}", docs, None, "cannot be a template"),
        ("docs/{other}", docs, None, "must take other"),
        ("{product}/{more}", docs, None, "must take product, more"),
        ("docs/{product}", docs, {"gone": []}, 'has no variable "gone"'),
        ("docs/{product}", docs, {"product": "text"}, "is a list of strings, or a function"),
        ("docs/{product}", docs, {"product": [5]}, "is a list of strings, or a function"),
        ("docs/{product}", docs, {"product": 5}, "is a list of strings, or a function"),
    ],
)
async def test_a_template_that_cannot_be_used_is_refused_when_it_is_registered(
    publish: Publish, path: str, function: Any, complete: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        publish().skill(path, complete=complete)(function)


@pytest.mark.rule("I5")
async def test_registering_twice_or_too_late_is_refused(skills: Skills, publish: Publish) -> None:
    with pytest.raises(ValueError, match="has a function already"):
        skills.skill("docs/{product}")(docs)
    with pytest.raises(ValueError, match="only a template has complete and description"):
        publish().skill("docs", complete={})
    async with asking(low_level(skills), MODERN) as asker:
        await asker.listing()
    with pytest.raises(RuntimeError, match="being served already"):
        skills.skill("late/{product}")(docs)


@pytest.mark.rule("I5", "I6")
async def test_a_template_may_have_a_scheme_and_a_literal_name(publish: Publish, version: str) -> None:
    skills = publish()
    skills.skill("acme/{repo}/guide", scheme="github")(lambda repo: skill_md("guide", f"repo: {repo}\n"))
    async with asking(low_level(skills), version) as asker:
        (template,) = (await asker.ask("resources/templates/list"))["resourceTemplates"]
        assert template["uriTemplate"] == "github://acme/{repo}/guide/SKILL.md"
        assert template["description"] == "Skills at acme/{repo}/guide."
        assert "repo: tool" in await asker.text("github://acme/tool/guide/SKILL.md")
        await asker.refusal("resources/read", {"uri": "skill://acme/tool/guide/SKILL.md"})
