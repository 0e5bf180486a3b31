"""A folder an agent works in: its skills, the user's, the servers it names; nothing of it before trust (P1, P6)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillquay.core.registry import LocalScope
from skillquay.errors import ConfigurationError
from skillquay.host.configuration import Configuration, Problem, read_mcp_json
from skillquay.host.local import LocalEntry, discover

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PROJECT_SKILLS", "USER_SKILLS", "Surroundings", "Workspace"]

PROJECT_SKILLS: Final = (".agents/skills", ".claude/skills")
USER_SKILLS: Final = ("~/.agents/skills", "~/.claude/skills")
_CONFIGURATION: Final = ".mcp.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a look around found: local skills, configured servers, and what the user should know."""

    skills: tuple[LocalEntry, ...]
    configuration: Configuration
    problems: tuple[Problem, ...]


class Workspace:
    """Where to look. `folder` is None for a host that has none: only the user's own skills are found then."""

    def __init__(
        self, folder: str | os.PathLike[str] | None, *, project_skills: Sequence[str], user_skills: Sequence[str]
    ) -> None:
        try:
            self.folder = None if folder is None else os.path.realpath(folder)
        except ValueError as error:
            raise ConfigurationError(f"The folder cannot be used: {error}.", rule="P1") from None
        self._project_skills = tuple(project_skills)
        self._user_skills = tuple(os.path.expanduser(each) for each in user_skills)

    def look(self, *, trusted: bool) -> Surroundings:
        """Find skills and servers. Of a folder that is not trusted, only that there is something is told (P6)."""
        skills: dict[str, LocalEntry] = {}
        problems: list[Problem] = []
        configuration = Configuration(servers={}, problems=())
        if self.folder is not None and not os.path.isdir(self.folder):
            problems.append(Problem(subject=self.folder, message="There is no such folder.", rule="P1"))
        if self.folder is not None and trusted:
            for path in self._project_skills:
                self._collect(os.path.join(self.folder, path), LocalScope.PROJECT, skills, problems)
            configuration = read_mcp_json(os.path.join(self.folder, _CONFIGURATION))
        elif self.folder is not None and self.offers_anything:
            problems.append(
                Problem(
                    subject=self.folder,
                    message="You have not trusted this folder, so its skills are not loaded and its servers are not "
                    'started. Look at them, then run "skillquay trust" here.',
                    rule="P6",
                )
            )
        for path in self._user_skills:
            self._collect(path, LocalScope.USER, skills, problems)
        problems.extend(configuration.problems)
        return Surroundings(skills=tuple(skills.values()), configuration=configuration, problems=tuple(problems))

    @property
    def configuration_path(self) -> str | None:
        """The file that names the folder's servers; it is the scope of their labels (N1)."""
        return None if self.folder is None else os.path.realpath(os.path.join(self.folder, _CONFIGURATION))

    @property
    def offers_anything(self) -> bool:
        """True when the folder has skills or servers of its own."""
        return self.folder is not None and any(
            os.path.lexists(os.path.join(self.folder, path)) for path in (*self._project_skills, _CONFIGURATION)
        )

    @staticmethod
    def _collect(path: str, scope: LocalScope, skills: dict[str, LocalEntry], problems: list[Problem]) -> None:
        found = discover(path, scope)
        problems.extend(found.problems)
        for skill in found.skills:
            skills.setdefault(skill.location, skill)  # one directory, linked from several places, is one skill
