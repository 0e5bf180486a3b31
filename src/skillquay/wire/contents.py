"""Bytes as `resources/read` carries them: text where that is exact, a blob everywhere else (U6, U7, B1)."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Mapping
from typing import Any, Final

from skillquay.core.hidden import shorten
from skillquay.errors import BudgetError, UnavailableError

__all__ = ["DIRECTORY", "MARKDOWN", "contents", "media_type", "received_bytes"]

DIRECTORY: Final = "inode/directory"
MARKDOWN: Final = "text/markdown"
_BY_SUFFIX: Final = mimetypes.MimeTypes(filenames=())  # the machine's own tables would make replicas disagree
_COMPRESSED: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
for _type, _suffixes in {
    MARKDOWN: ".md .markdown .mdx",
    "application/json": ".json",
    "application/toml": ".toml",
    "application/typescript": ".ts .tsx",
    "application/x-sh": ".sh .bash",
    "application/yaml": ".yaml .yml",
    "text/csv": ".csv",
    "text/javascript": ".js .mjs .cjs",
    "text/x-python": ".py",
}.items():
    for _suffix in _suffixes.split():
        _BY_SUFFIX.add_type(_type, _suffix)


def media_type(name: str, data: bytes | None = None) -> str | None:
    """The type of a file's content: told by its name, or else by whether its bytes are text."""
    guessed, encoding = _BY_SUFFIX.guess_type(f"/{name}", strict=True)
    if encoding is not None:  # the type is that of what is inside
        return _COMPRESSED.get(encoding, "application/octet-stream")
    if guessed is not None:
        return guessed
    if data is None:
        return None
    return "application/octet-stream" if _text(data) is None else "text/plain"


def contents(uri: str, data: bytes, mime_type: str | None) -> dict[str, Any]:
    """One item of `contents`. Text is used only if encoding it again gives these very bytes."""
    item: dict[str, Any] = {"uri": uri}
    if mime_type is not None:
        item["mimeType"] = mime_type
    text = _text(data)
    if text is None:
        item["blob"] = base64.b64encode(data).decode("ascii")
    else:
        item["text"] = text
    return item


def received_bytes(answer: Mapping[str, object], uri: str, *, limit: int) -> bytes:
    """The bytes of the one file that was asked for. More than `limit` of them are not decoded (B1)."""
    shown = shorten(uri)
    items = answer.get("contents")
    if not isinstance(items, list) or len(items) != 1 or not isinstance(items[0], Mapping):
        raise UnavailableError(f"The answer for {shown} does not hold exactly one file.", rule="R1")
    text, blob = items[0].get("text"), items[0].get("blob")
    if isinstance(text, str) and blob is None:
        _check_limit(len(text), limit, shown)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise UnavailableError(f"The text of {shown} is not Unicode.", rule="R1") from None
    elif isinstance(blob, str) and text is None:
        _check_limit(len(blob) // 4 * 3 - 2, limit, shown)
        try:
            data = binascii.a2b_base64(blob, strict_mode=True)
        except (ValueError, binascii.Error):
            raise UnavailableError(f"The content of {shown} is not base64.", rule="R1") from None
    else:
        raise UnavailableError(f"The answer for {shown} holds neither a text nor a blob.", rule="R1")
    _check_limit(len(data), limit, shown)
    return data


def _check_limit(size: int, limit: int, shown: str) -> None:
    if size > limit:
        raise BudgetError(f"{shown} is larger than the {limit:,} bytes that are taken of it.")


def _text(data: bytes) -> str | None:
    """Strict UTF-8 has one encoding of each text, so that what decodes also encodes to the same bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
