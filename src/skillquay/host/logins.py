"""Keep a login to a server: one file for each label and URL, the user's alone, written whole or not at all (K4, N1)."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import time
from dataclasses import dataclass
from typing import Any, Final

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata

from skillquay.core.hidden import visible
from skillquay.core.identity import ServerLabel
from skillquay.errors import StateError, UnavailableError

__all__ = ["KeptLogin", "LoginFile"]

_LARGEST: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLogin:
    """A login: the tokens, until when they count, and what is needed to renew them."""

    tokens: OAuthToken
    expires: float | None
    client: OAuthClientInformationFull | None
    metadata: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None

    @property
    def is_over(self) -> bool:
        """True when the access token does not count any more, as far as its server said when it ends."""
        return self.expires is not None and self.expires < time.time()

    def to_json(self) -> dict[str, Any]:
        """What is written."""

        def plain(model: OAuthClientInformationFull | OAuthMetadata | ProtectedResourceMetadata | None) -> object:
            return None if model is None else model.model_dump(mode="json", exclude_none=True)

        return {
            "tokens": self.tokens.model_dump(mode="json", exclude_none=True),
            "expires": self.expires,
            "client": plain(self.client),
            "metadata": plain(self.metadata),
            "resource": plain(self.resource),
        }

    @classmethod
    def of(cls, raw: dict[str, Any]) -> KeptLogin:
        """A `ValueError`, `KeyError` or `TypeError` for what is none."""
        client, metadata, resource = raw["client"], raw["metadata"], raw["resource"]
        return cls(
            tokens=OAuthToken.model_validate(raw["tokens"]),
            expires=None if raw["expires"] is None else float(raw["expires"]),
            client=None if client is None else OAuthClientInformationFull.model_validate(client),
            metadata=None if metadata is None else OAuthMetadata.model_validate(metadata),
            resource=None if resource is None else ProtectedResourceMetadata.model_validate(resource),
        )


class LoginFile:
    """Where one login is kept: readable by its user alone, written whole or not at all (K4)."""

    def __init__(self, directory: str, label: str, url: str) -> None:
        self._directory = directory
        self._whose = {"label": label, "url": url}
        self.path = os.path.join(directory, f"{ServerLabel(label=label, scope=url).directory}.json")

    def read(self) -> KeptLogin | None:
        """The login; None when there is none, or what is there is none of this label and URL."""
        try:
            with open(os.open(self.path, _READ), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    raise StateError(f"{visible(self.path)} is not a file of yours. Remove it, and log in again.")
                data = file.read(_LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error("read", error) from None
        try:
            raw = json.loads(data)
            is_ours = {key: raw[key] for key in self._whose} == self._whose
            return KeptLogin.of(raw) if is_ours else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def make_room(self) -> None:
        """See to it that a login can be kept, before a person is asked for one."""
        self._write(b"", None)

    def write(self, kept: KeptLogin) -> None:
        """Keep a login in the place of what was there."""
        data = json.dumps(self._whose | kept.to_json()).encode()
        if len(data) > _LARGEST:
            raise UnavailableError(f"sends more than {_LARGEST:,} bytes with a login")
        self._write(data, self.path)

    def remove(self) -> bool:
        """Forget the login; False when there is none."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._error("removed", error) from None
        return True

    def _write(self, data: bytes, path: str | None) -> None:
        temporary = os.path.join(self._directory, f".writing-{secrets.token_hex(8)}")
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            if os.stat(self._directory).st_mode & 0o077:
                os.chmod(self._directory, 0o700)
            try:
                with open(os.open(temporary, _WRITE, 0o600), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if path is not None:
                    os.replace(temporary, path)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        except OSError as error:
            raise self._error("written", error) from None

    def _error(self, what: str, error: OSError) -> StateError:
        where, why = visible(self._directory), (error.strerror or "unknown error").lower()
        return StateError(f"The login in {where} cannot be {what}: {why}. Correct that, and log in again.")
