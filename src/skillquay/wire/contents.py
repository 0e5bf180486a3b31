"""Bytes as `resources/read` carries them: text where that is exact, a blob everywhere else (U6, U7)."""

from __future__ import annotations

import base64
import mimetypes
from typing import Any, Final

__all__ = ["DIRECTORY", "MARKDOWN", "contents", "media_type"]

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


def _text(data: bytes) -> str | None:
    """Strict UTF-8 has one encoding of each text, so that what decodes also encodes to the same bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
