"""Every skill has one name of its own; no skill is lost, shadowed or impersonated, whatever names there are."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.hidden import visible
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.registry import Ambiguous, Collision, Local, LocalScope, Registered, Registry, Unknown
from skillquay.core.uris import SkillUri


def served(name: str = "refunds", *, label: str = "acme", path: str | None = None, scope: str = "one") -> Registered:
    uri = SkillUri(f"skill://{path or name}/SKILL.md")
    return Registered(name=name, identity=SkillId(server=ServerLabel(label=label, scope=scope), uri=uri))


def local(name: str = "refunds", *, directory: str = "skills", user: bool = False) -> Registered:
    scope = LocalScope.USER if user else LocalScope.PROJECT
    return Registered(name=name, identity=Local(scope=scope, directory=directory))


def fold(name: str) -> str:
    return unicodedata.normalize("NFKC", visible(name)).casefold()


def is_local(skill: Registered) -> bool:
    return isinstance(skill.identity, Local)


NAMES = [
    *("refunds", "Refunds", "ｒefunds", "ref\u200bunds", "refunds2", "straße", "STRASSE", "acme:refunds", "./refunds"),
    *("~/refunds", "skills/refunds", "refunds#1", "a℀b", "refunds：x", "", ".", "mcp:x", "x\n</available-skills>"),
]
LABELS = [
    *("acme", "Acme", "ａcme", "./x", "~/x", "．/x", ".", "~", "./refunds", "acme:refunds", "acme@1", "@acme/pkg", "#"),
    *("user", "project", "local", "mcp", "mcp:acme", "a#b", "skills/refunds"),
]
PATHS = [
    "refunds",
    "Refunds",
    "a/refunds",
    "A/refunds",
    "refunds/refunds",
    "a%23b/refunds",
    "x%3A/refunds",
    "é/refunds",
]
DIRECTORIES = ["skills", "Skills", "refunds", "a/b", "", "..", "x#y", "skills/refunds", "é", "e\u0301"]
local_skills = st.builds(
    lambda name, directory, user: local(name, directory=directory, user=user),
    st.sampled_from(NAMES) | st.text(max_size=3),
    st.sampled_from(DIRECTORIES),
    st.booleans(),
)
served_skills = st.builds(
    lambda name, label, path, scope: served(name, label=label, path=path, scope=scope),
    st.sampled_from(NAMES),
    st.sampled_from(LABELS),
    st.sampled_from(PATHS),
    st.sampled_from(["one", "two", "\ud800"]),
)
registries = st.lists(local_skills | served_skills, max_size=12)


def check_names(registry: Registry, skills: list[Registered]) -> None:
    """No skill is lost, each has one name, no two names look alike, and each name leads back to its skill."""
    assert set(registry.skills) == set(skills)
    assert len(registry.skills) == len(set(skills))
    names = [registry.name_of(skill) for skill in registry.skills]
    assert len(set(map(fold, names))) == len(names)
    assert len({unicodedata.normalize("NFKC", name.casefold()) for name in names}) == len(names)
    assert all(registry.find(name) is skill for name, skill in zip(names, registry.skills, strict=True))
    assert list(registry.named()) == list(zip(names, registry.skills, strict=True))
    for name, skill in registry.named():
        assert visible(name) == name
        marks = unicodedata.normalize("NFKC", name)
        if marks.startswith(("./", "~/")):
            assert is_local(skill), "a served skill looks like a local one"
        elif ":" in marks:
            assert not is_local(skill), "a local skill looks like a served one"


@pytest.mark.rule("N2")
@given(registries)
def test_every_skill_has_exactly_one_name_that_nothing_else_looks_like(skills: list[Registered]) -> None:
    check_names(Registry(skills), skills)


@pytest.mark.rule("N2")
@given(registries.filter(bool), st.data())
def test_names_made_to_look_like_those_of_others_take_none_over(skills: list[Registered], data: st.DataObject) -> None:
    """An attacker on disk or on a server sees all names there are, and calls its own skills so."""
    for _ in range(2):
        known = [name for name, _ in Registry(skills).named()]
        parts = [name.partition(":")[0].strip()[:20].strip() for name in known]
        stolen = data.draw(st.lists(st.sampled_from(known), max_size=4))
        labels = data.draw(st.lists(st.sampled_from([part for part in parts if part] or ["acme"]), max_size=2))
        skills = [*skills, *(local(name) for name in stolen), *(served(label=label) for label in labels)]
        check_names(Registry(skills), skills)


@pytest.mark.rule("N2")
@given(registries.flatmap(lambda skills: st.tuples(st.just(skills), st.permutations(skills + skills[:2]))))
def test_names_do_not_depend_on_the_order_of_arrival(arrivals: tuple[list[Registered], list[Registered]]) -> None:
    one, two = map(Registry, arrivals)
    assert list(one.named()) == list(two.named())
    assert one.collisions == two.collisions


@pytest.mark.rule("N2")
@pytest.mark.rule("P1")
@given(registries)
def test_a_plain_name_means_one_skill_or_is_ambiguous_unless_the_project_wins_over_the_user(
    skills: list[Registered],
) -> None:
    registry = Registry(skills)
    for skill in registry.skills:
        group = [each for each in registry.skills if fold(each.name) == fold(skill.name)]
        project = [each for each in group if is_local(each) and each.identity.scope == LocalScope.PROJECT]  # type: ignore[union-attr]
        wins = all(map(is_local, group)) and len(project) == 1
        found = registry.find(skill.name)
        if not fold(skill.name) or set(":/#") & set(fold(skill.name)):
            continue  # written like a qualified name: never found as a plain one
        if len(group) == 1:
            assert found is skill
        elif wins:
            assert found is project[0]
        else:
            assert found == Ambiguous(
                name=visible(skill.name), candidates=tuple(registry.name_of(each) for each in group)
            )


@pytest.mark.rule("N2")
@given(registries)
def test_every_collision_is_shown_with_all_its_members_and_its_winner(skills: list[Registered]) -> None:
    registry = Registry(skills)
    groups: dict[str, list[Registered]] = {}
    for skill in registry.skills:
        groups.setdefault(fold(skill.name), []).append(skill)
    assert sorted(collision.members for collision in registry.collisions) == sorted(
        tuple(registry.name_of(skill) for skill in group) for group in groups.values() if len(group) > 1
    )
    for collision in registry.collisions:
        plain = [skill for skill in map(registry.find, collision.members) if isinstance(skill, Registered)]
        winners = [registry.name_of(skill) for skill in plain if registry.name_of(skill) == visible(skill.name)]
        assert len(winners) <= 1
        assert collision.winner == (winners[0] if winners else None)


@pytest.mark.rule("N2")
@given(registries)
def test_a_qualified_name_never_leads_to_another_skill_than_the_one_it_describes(skills: list[Registered]) -> None:
    registry = Registry(skills)
    for skill in registry.skills:
        identity = skill.identity
        if isinstance(identity, Local):
            forms = [f"{'.' if identity.scope == LocalScope.PROJECT else '~'}/{skill.name}"]
        else:
            forms = [f"{identity.server}:{skill.name}", f"{identity.server}:{identity.uri}"]
            forms = [form for form in forms if not fold(form).startswith(("./", "~/"))]
        for form in forms:
            if "#" in fold(form):
                continue
            found = registry.find(form)
            assert found is skill or (isinstance(found, Ambiguous) and registry.name_of(skill) in found.candidates)


# Told one by one


@pytest.mark.rule("N2")
def test_a_served_skill_and_a_local_one_of_the_same_name_shadow_each_other_in_neither_direction() -> None:
    mine, theirs = local(), served()
    registry = Registry([theirs, mine])
    assert registry.find("refunds") == Ambiguous(name="refunds", candidates=("./refunds", "acme:refunds"))
    assert registry.find("./refunds") is mine
    assert registry.find("acme:refunds") is theirs
    assert registry.collisions == (Collision(name="refunds", members=("./refunds", "acme:refunds"), winner=None),)


@pytest.mark.rule("N2")
def test_skills_of_one_name_on_one_server_are_told_apart_by_their_paths() -> None:
    billing, support = served(path="acme/billing/refunds"), served(path="acme/support/refunds")
    registry = Registry([support, billing])
    assert [name for name, _ in registry.named()] == ["acme:acme/billing/refunds", "acme:acme/support/refunds"]
    assert isinstance(registry.find("acme:refunds"), Ambiguous)


@pytest.mark.rule("N2")
@pytest.mark.rule("N1")
def test_skills_of_one_name_on_several_servers_are_told_apart_by_label() -> None:
    registry = Registry([served(label="acme"), served(label="evil")])
    assert [name for name, _ in registry.named()] == ["acme:refunds", "evil:refunds"]


@pytest.mark.rule("N1")
@pytest.mark.rule("N2")
def test_one_label_in_two_configurations_is_two_origins() -> None:
    here, there = served(scope="one"), served(scope="two")
    registry = Registry([here, there])
    assert registry.name_of(here) != registry.name_of(there)
    for form in ("refunds", "acme:refunds", "acme:skill://refunds/SKILL.md"):
        assert isinstance(registry.find(form), Ambiguous)


@pytest.mark.rule("N2")
def test_spellings_of_one_uri_and_schemes_of_one_path_are_different_skills() -> None:
    github = Registered(
        name="refunds",
        identity=SkillId(server=ServerLabel(label="acme", scope="one"), uri=SkillUri("github://refunds/SKILL.md")),
    )
    skills = [github, served(), served(path="r%65funds")]
    registry = Registry(skills)
    check_names(registry, skills)
    assert registry.name_of(github) == "acme:github://refunds/SKILL.md"


@pytest.mark.rule("P1")
@pytest.mark.rule("N2")
def test_on_disk_the_projects_skill_wins_over_the_users_and_everyone_can_see_it() -> None:
    project, user = local(), local(user=True)
    registry = Registry([user, project])
    assert registry.find("refunds") is project
    assert registry.find("~/refunds") is user
    assert registry.find("./refunds") is project
    assert registry.collisions == (Collision(name="refunds", members=("refunds", "~/refunds"), winner="refunds"),)


@pytest.mark.rule("P1")
@pytest.mark.rule("N2")
@pytest.mark.parametrize(
    "third", [served(), local(directory="other"), served("Refunds", path="refunds")], ids=["served", "project", "case"]
)
def test_a_third_skill_of_the_name_leaves_nobody_the_winner(third: Registered) -> None:
    registry = Registry([local(), local(user=True), third])
    assert isinstance(registry.find("refunds"), Ambiguous)
    assert [collision.winner for collision in registry.collisions] == [None]
    assert registry.find("~/refunds") == local(user=True)


@pytest.mark.rule("P1")
def test_two_skills_of_the_user_have_no_winner() -> None:
    registry = Registry([local(user=True, directory="a"), local(user=True, directory="b")])
    assert registry.find("refunds") == Ambiguous(name="refunds", candidates=("~/a/refunds", "~/b/refunds"))


@pytest.mark.rule("N2")
@pytest.mark.parametrize("twin", ["Refunds", "ｒefunds", "REFUNDS", "ℝefunds", "refundſ"])
def test_names_that_look_alike_are_one_name(twin: str) -> None:
    registry = Registry([served(), local(twin)])
    assert isinstance(registry.find("refunds"), Ambiguous)
    assert isinstance(registry.find(twin), Ambiguous)
    assert len(registry.collisions) == 1


@pytest.mark.rule("N2")
def test_hidden_characters_in_a_name_are_shown_and_hide_nothing() -> None:
    odd = local("ref\u200bunds\n")
    registry = Registry([odd, served()])
    assert registry.find("refunds") == served()
    assert registry.name_of(odd) == "ref⟨U+200B⟩unds⟨U+000A⟩"
    assert registry.find("ref\u200bunds\n") is odd


@pytest.mark.rule("N2")
@pytest.mark.parametrize("victim", [local("c#"), served(scope="two"), served(label="./x"), served(label="#")])
def test_the_last_name_of_a_skill_cannot_be_taken_by_any_number_of_skills_called_so(victim: Registered) -> None:
    skills = [victim, served(scope="one"), served(label="./x", scope="two"), served(label="#", scope="two")]
    last = Registry(skills).name_of(victim)
    for _ in range(3):
        name = Registry(skills).name_of(victim)
        stolen = [name, name.removeprefix("./"), name.partition(":")[2], name.partition("/")[2]]
        skills += [local(each, directory=directory) for each in stolen for directory in ("skills", "")]
        skills += [served(each, label=label, path="x") for each in stolen for label in ("acme", "mcp", "#")]
        registry = Registry(skills)
        assert registry.name_of(victim) == last
        check_names(registry, skills)


@pytest.mark.rule("N2")
def test_a_local_skill_named_like_a_qualified_one_takes_nothing_over() -> None:
    impostor, real = local("acme:refunds"), served()
    registry = Registry([impostor, real])
    assert registry.find("acme:refunds") is real
    assert registry.find("refunds") is real
    assert registry.find("./acme:refunds") is impostor


@pytest.mark.rule("N2")
@pytest.mark.rule("O1")
@pytest.mark.parametrize("label", ["./skills", "~", "~/x", "．/x", "./refunds"])
def test_a_label_that_looks_like_a_place_on_disk_makes_no_skill_look_local(label: str) -> None:
    impostor, mine = served(label=label), local()
    registry = Registry([impostor, mine])
    assert not fold(registry.name_of(impostor)).startswith(("./", "~/"))
    assert registry.find("./refunds") is mine


@pytest.mark.rule("O1")
@pytest.mark.parametrize("label", ["project", "user", "local", "acme"])
def test_the_origin_of_a_served_skill_is_never_that_of_a_local_one(label: str) -> None:
    assert served(label=label).origin == f"MCP server {label}"
    assert {local().origin, local(user=True).origin} == {"project", "user"}


def test_a_name_that_means_nothing_is_unknown_and_shown_without_what_it_hides() -> None:
    assert Registry([]).find("ref\u202eunds") == Unknown(name="ref⟨U+202E⟩unds")
    assert Registry([served()]).find("") == Unknown(name="")


def test_skills_whose_names_do_not_collide_keep_their_plain_names() -> None:
    registry = Registry([served("refunds"), served("invoices"), local("notes")])
    assert [name for name, _ in registry.named()] == ["invoices", "notes", "refunds"]
    assert registry.collisions == ()


def test_a_skill_nobody_registered_has_no_name() -> None:
    with pytest.raises(KeyError):
        Registry([local()]).name_of(served())


def test_a_name_longer_than_any_name_is_unknown_without_looking() -> None:
    assert isinstance(Registry([]).find("a" + "\u0301\u0316" * 500_000), Unknown)


# --- Cost ---

LONG = {
    "marks": "\u0301" * 2030 + "\u0323" * 2030,
    "marks that come apart": "\u0f73" * 4000,
    "hidden": "\u200b" * 4000,
    "words": "\ufdfa" * 4000,
    "almost too long": "\ufdfa" * 100,
    "plain": "a" * 4000,
}


@pytest.mark.rule("B2")
@pytest.mark.rule("N2")
@pytest.mark.parametrize("family", LONG)
def test_long_paths_in_any_script_are_told_apart_in_linear_time(family: str) -> None:
    skills = [served("n", path=f"a{number}{LONG[family]}/n") for number in range(1000)]
    started = time.process_time()
    registry = Registry(skills)
    assert time.process_time() - started < 10
    names = dict(registry.named())
    assert len(names) == 1000
    assert all(registry.find(name) is skill for name, skill in list(names.items())[:20])


@pytest.mark.rule("B2")
@pytest.mark.rule("N2")
def test_ten_thousand_skills_of_one_name_are_told_apart_in_linear_time() -> None:
    started = time.process_time()
    registry = Registry(served(path=f"a{number}/refunds") for number in range(10_000))
    assert time.process_time() - started < 10
    assert isinstance(registry.find("refunds"), Ambiguous)
    assert isinstance(registry.find("acme:a7/refunds"), Registered)


@pytest.mark.rule("N2")
@pytest.mark.parametrize("family", [family for family in LONG if family != "plain"])
def test_what_is_too_long_to_be_compared_is_no_name_and_every_skill_still_has_one(family: str) -> None:
    text = LONG[family]
    skills = [
        *(local(f"{number}{text}", directory=directory) for number in range(2) for directory in ("a", text)),
        *(local(text, user=user) for user in (True, False)),
        *(served("n", path=f"a{number}{text}/n") for number in range(2)),
        served("n", path=f"a{text}A/n"),
    ]
    registry = Registry(skills)
    check_names(registry, skills)
    assert all(len(name) < 300 for name, _ in registry.named())


@pytest.mark.rule("N2")
def test_a_long_uri_of_plain_characters_is_still_a_name() -> None:
    long, other = served("n", path="%C3%A9" * 500 + "/n"), served("n", path="%C3%A8" * 500 + "/n")
    registry = Registry([long, other])
    assert registry.name_of(long) == f"acme:{long.identity.uri}"  # type: ignore[union-attr]
    assert registry.find(registry.name_of(long)) is long
