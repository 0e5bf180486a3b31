"""The errors of skillquay, grouped by who can put the matter right.

    SkillquayError
    ├── AuthorError              the skill's author
    │   └── FrontmatterError         SKILL.md cannot be read as a skill
    │       └── YamlSyntaxError          its frontmatter is not YAML
    ├── GenerationError          the author of a function that makes a skill
    ├── ServerError              the server that published it
    │   ├── EntryError               a listing entry is not valid
    │   ├── VerificationError        content is not what the entry describes
    │   │   ├── UnlistedFileError
    │   │   ├── SizeMismatchError
    │   │   ├── DigestMismatchError
    │   │   └── FrontmatterMismatchError
    │   ├── ArchiveError             an archive is not what a skill may be packed as
    │   ├── UnavailableError         it cannot be reached, or does not answer as MCP asks
    │   └── BudgetError              it sends more than the host takes
    ├── RefusedError             the user: their answer, or their policy, stands against it
    ├── UnknownSkillError        whoever named the skill
    ├── ConfigurationError       whoever wrote the configuration
    ├── StateError               the user: what the host keeps cannot be read or written
    ├── UriError                 whoever wrote the URI
    ├── CursorError              the client that sent the cursor
    └── LabelError               the person who named the server

Every message is a sentence that names the thing, what was expected, what was found, and what to do next. Text that
came from outside is shown through `visible`, so that no message can carry control or hidden characters.
"""

from __future__ import annotations

__all__ = [
    "ArchiveError",
    "AuthorError",
    "BudgetError",
    "ConfigurationError",
    "CursorError",
    "DigestMismatchError",
    "EntryError",
    "FrontmatterError",
    "FrontmatterMismatchError",
    "GenerationError",
    "LabelError",
    "RefusedError",
    "ServerError",
    "SizeMismatchError",
    "SkillquayError",
    "StateError",
    "UnavailableError",
    "UnknownSkillError",
    "UnlistedFileError",
    "UriError",
    "VerificationError",
    "YamlSyntaxError",
]


class SkillquayError(Exception):
    """Any failure that skillquay reports on purpose; `rule` is the id of the rule that was broken."""

    def __init__(self, message: str, *, rule: str) -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule


class AuthorError(SkillquayError):
    """The skill's author can put this right."""


class FrontmatterError(AuthorError):
    """`SKILL.md` cannot be read as a skill; `line` counts from the file's first line."""

    def __init__(self, message: str, *, line: int, rule: str = "F1", fix: str | None = None) -> None:
        super().__init__(message, rule=rule)
        self.line = line
        self.fix = fix


class YamlSyntaxError(FrontmatterError):
    """The frontmatter is not YAML at all; a value that is not quoted is the usual cause."""


class GenerationError(SkillquayError):
    """What a function made cannot be published as a skill."""


class ServerError(SkillquayError):
    """The server that published the skill can put this right."""


class EntryError(ServerError):
    """A listing entry is not valid; `field` says where, as in `resources[3].digest`."""

    def __init__(self, message: str, *, field: str, rule: str) -> None:
        super().__init__(f"{field}: {message}", rule=rule)
        self.field = field


class VerificationError(ServerError):
    """Content is not what the held entry describes. The bytes must be dropped."""

    def __init__(self, message: str, *, uri: str, rule: str = "V1") -> None:
        super().__init__(message, rule=rule)
        self.uri = uri


class UnlistedFileError(VerificationError):
    """The file is not in the held entry."""


class SizeMismatchError(VerificationError):
    """The file is longer or shorter than its record says."""


class DigestMismatchError(VerificationError):
    """The file's bytes are not the recorded ones."""


class FrontmatterMismatchError(VerificationError):
    """The frontmatter in `SKILL.md` is not the one the entry showed to the user."""


class ArchiveError(ServerError):
    """An archive cannot be unpacked, or what is to be packed could not be: nothing of it is used."""

    def __init__(self, message: str, *, rule: str = "I4") -> None:
        super().__init__(message, rule=rule)


class UnavailableError(ServerError):
    """The server cannot be reached, or does not answer as the protocol asks; `code` is that of a JSON-RPC error."""

    def __init__(self, message: str, *, rule: str = "B2", code: int | None = None) -> None:
        super().__init__(message, rule=rule)
        self.code = code


class BudgetError(ServerError):
    """The server sends more than the host takes; the message names the limit."""

    def __init__(self, message: str, *, rule: str = "B1") -> None:
        super().__init__(message, rule=rule)


class RefusedError(SkillquayError):
    """The user's answer or policy stands against it, or nobody was there to answer."""


class UnknownSkillError(SkillquayError):
    """A name that means no skill, or several."""

    def __init__(self, message: str, *, rule: str = "N2") -> None:
        super().__init__(message, rule=rule)


class ConfigurationError(SkillquayError):
    """A configuration, or one server in it, cannot be used."""

    def __init__(self, message: str, *, rule: str = "P4") -> None:
        super().__init__(message, rule=rule)


class StateError(SkillquayError):
    """What the host keeps (approvals, the audit, the cache) cannot be read or written."""

    def __init__(self, message: str, *, rule: str = "K4") -> None:
        super().__init__(message, rule=rule)


class UriError(SkillquayError):
    """A URI cannot name a skill or one of its files."""

    def __init__(self, message: str, *, rule: str = "U3") -> None:
        super().__init__(message, rule=rule)


class CursorError(SkillquayError):
    """A cursor was not made by this listing."""

    MESSAGE = "The cursor was not given out by this listing. Begin again without one."

    def __init__(self) -> None:
        super().__init__(self.MESSAGE, rule="L1")


class LabelError(SkillquayError):
    """A server's label cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, rule="N1")
