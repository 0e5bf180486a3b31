"""Which format an archive has: its media type says so, or its suffix."""

from __future__ import annotations

import pytest

from skillquay.archives.formats import ArchiveFormat, find_format, format_named

TAR_GZ, ZIP = ArchiveFormat


def test_a_format_knows_its_media_type_and_its_suffix() -> None:
    assert (TAR_GZ.media_type, TAR_GZ.suffix) == ("application/gzip", ".tar.gz")
    assert (ZIP.media_type, ZIP.suffix) == ("application/zip", ".zip")


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("media_type", "url", "expected"),
    [
        ("application/gzip", "skill://refunds.zip", TAR_GZ),
        ("application/zip", "skill://refunds.tar.gz", ZIP),
        ("Application/ZIP; charset=binary", "skill://refunds", ZIP),
        (" application/gzip ;q=1", "skill://refunds", TAR_GZ),
        (None, "skill://refunds.tar.gz", TAR_GZ),
        (None, "skill://refunds.ZIP", ZIP),
        ("", "skill://refunds.zip", ZIP),
        ("application/octet-stream", "https://example.com/refunds.tar.gz?v=2#top", TAR_GZ),
        ("application/octet-stream", "https://example.com/get?file=refunds.zip", None),
        ("application/x-tar", "skill://refunds.tar", None),
        (None, "skill://refunds/SKILL.md", None),
        (None, "", None),
    ],
)
def test_the_media_type_comes_first_and_the_suffix_where_it_says_nothing(
    media_type: str | None, url: str, expected: ArchiveFormat | None
) -> None:
    assert find_format(media_type, url) is expected


def test_a_file_name_may_hold_what_ends_a_url() -> None:
    assert format_named("q#1?.tar.gz") is TAR_GZ
    assert format_named("notes.md") is None
