"""A folder an agent works in: nothing of it is used before the user trusts it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from skillquay.errors import StateError, UnknownSkillError
from skillquay.host.workspace import PROJECT_SKILLS, Workspace
from tests.host.scripted import hosting, local_skill

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a skill and a server that leaves a trace when it is started."""
    place = tmp_path / "work"
    local_skill(place / ".agents" / "skills", "mine")
    trace = f"echo started > {tmp_path}/started; echo $MARK >> {tmp_path}/started"
    server = {"command": "/bin/sh", "args": ["-c", trace], "env": {"MARK": "${HOME}"}}
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"local": server}}))
    return place


@pytest.mark.rule("P6")
async def test_nothing_of_a_folder_that_is_not_trusted_is_loaded_or_started_and_that_is_told(
    tmp_path: Path, folder: Path
) -> None:
    local_skill(tmp_path / "home", "own")
    options: dict[str, Any] = {"user_skills": (str(tmp_path / "home"),)}
    async with hosting(tmp_path, workspace=folder, **options) as host:
        assert not await host.is_trusted()
        assert [skill.name for skill in host.skills] == ["own"]
        assert host.servers == ()
        (problem,) = host.problems
        assert problem.rule == "P6"
        assert "skillquay trust" in problem.message
        with pytest.raises(UnknownSkillError):
            await host.read_skill("mine")
    assert not (tmp_path / "started").exists()


@pytest.mark.rule("P6")
async def test_a_folder_is_trusted_until_that_is_taken_back_and_only_this_very_folder(
    tmp_path: Path, folder: Path
) -> None:
    async with hosting(tmp_path, workspace=folder) as host:
        assert await host.people.trust(yes=True) == str(folder)
        await host.refresh()
        assert [skill.name for skill in host.skills] == ["mine"]
        assert [label.label for label in host.servers] == ["local"]
        assert (tmp_path / "started").exists()
    link = tmp_path / "link"
    link.symlink_to(folder)
    async with hosting(tmp_path, workspace=link) as host:
        assert await host.is_trusted(), "the same folder by another path"
        await host.people.trust(yes=False)
        await host.refresh()
        assert host.skills == ()
        assert host.servers == ()
    inside = folder / "inside"
    local_skill(inside / ".claude" / "skills", "deeper")
    async with hosting(tmp_path, workspace=folder) as host:
        await host.people.trust(yes=True)
    async with hosting(tmp_path, workspace=inside) as host:
        assert host.skills == ()


@pytest.mark.rule("P6")
async def test_trust_can_be_settled_for_one_run_without_being_remembered(tmp_path: Path, folder: Path) -> None:
    async with hosting(tmp_path, workspace=folder, trust=True) as host:
        assert [skill.name for skill in host.skills] == ["mine"]
        assert "Do it here." in await host.read_skill("mine")
    async with hosting(tmp_path, workspace=folder) as host:
        assert host.skills == ()
        await host.people.trust(yes=True)
    async with hosting(tmp_path, workspace=folder, trust=False) as host:
        assert host.skills == ()


@pytest.mark.rule("P6")
async def test_without_a_state_no_folder_counts_as_trusted(tmp_path: Path, folder: Path) -> None:
    async with hosting(tmp_path, workspace=folder) as host:
        await host.people.trust(yes=True)
    (tmp_path / "state.sqlite3").write_bytes(b"garbage" * 1000)
    async with hosting(tmp_path, workspace=folder) as host:
        assert not await host.is_trusted()
        assert host.skills == ()


async def test_a_host_without_a_folder_has_nothing_to_trust(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        assert await host.is_trusted()
        with pytest.raises(StateError, match="no folder"):
            await host.people.trust(yes=True)


def workspace(folder: Path | None, *user: Path) -> Workspace:
    return Workspace(folder, project_skills=PROJECT_SKILLS, user_skills=tuple(map(str, user)))


def test_a_folder_without_skills_and_servers_offers_nothing_and_nothing_is_told(tmp_path: Path) -> None:
    empty = workspace(tmp_path)
    assert not empty.offers_anything
    assert empty.look(trusted=False).problems == ()
    assert not workspace(None).offers_anything
    (tmp_path / ".mcp.json").symlink_to("nowhere")
    assert empty.offers_anything


@pytest.mark.rule("P1")
def test_a_directory_that_is_found_in_two_ways_is_one_skill(tmp_path: Path) -> None:
    local_skill(tmp_path / ".agents" / "skills", "mine")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "skills").symlink_to(tmp_path / ".agents" / "skills")
    found = workspace(tmp_path, tmp_path / ".agents" / "skills").look(trusted=True)
    assert [(skill.name, skill.identity.scope.value) for skill in found.skills] == [("mine", "project")]


@pytest.mark.rule("P1")
@pytest.mark.rule("N2")
async def test_the_projects_skill_has_the_plain_name_and_the_users_is_still_there_and_it_is_told(
    tmp_path: Path, folder: Path
) -> None:
    local_skill(tmp_path / "home", "mine", body="The user's words.\n")
    options: dict[str, Any] = {"user_skills": (str(tmp_path / "home"),), "trust": True}
    async with hosting(tmp_path, workspace=folder, **options) as host:
        assert sorted(skill.name for skill in host.skills) == ["mine", "~/mine"]
        assert "Do it here." in await host.read_skill("mine")
        assert "The user's words." in await host.read_skill("~/mine")
        (collision,) = (problem for problem in host.problems if problem.rule == "N2")
        assert 'The plain name means "mine"' in collision.message


def test_the_problems_of_a_configuration_are_told(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{ not json")
    assert len(workspace(tmp_path).look(trusted=True).problems) == 1
    assert workspace(tmp_path).look(trusted=True).configuration.servers == {}
