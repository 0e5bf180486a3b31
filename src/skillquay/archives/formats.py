"""The two formats of archives, and which of them something is (I3)."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ArchiveFormat", "find_format", "format_named"]


class ArchiveFormat(StrEnum):
    """How a skill is packed into one file."""

    TAR_GZ = "tar.gz"
    ZIP = "zip"

    @property
    def media_type(self) -> str:
        """What the drafts call it in `mimeType`."""
        return "application/gzip" if self is ArchiveFormat.TAR_GZ else "application/zip"

    @property
    def suffix(self) -> str:
        """What its file names end in."""
        return f".{self.value}"


def find_format(media_type: str | None, url: str) -> ArchiveFormat | None:
    """The format of an archive: from its media type, and where that says nothing from the suffix of its URL."""
    essence = (media_type or "").partition(";")[0].strip().lower()
    for known in ArchiveFormat:
        if essence == known.media_type:
            return known
    return format_named(url.partition("#")[0].partition("?")[0])


def format_named(name: str) -> ArchiveFormat | None:
    """The format that a file's name tells."""
    return next((known for known in ArchiveFormat if name.lower().endswith(known.suffix)), None)
