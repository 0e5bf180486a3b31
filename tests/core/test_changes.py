"""What moved between two manifests: every file is in exactly one of added, removed, rewritten and unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillquay.core.changes import ManifestChange, compare
from tests.core.builders import publish

files = st.dictionaries(
    st.sampled_from(["a.md", "A.md", "b/c.md", "b/d e.md", "é.md", "e\u0301.md"]), st.sampled_from([b"", b"1", b"2"])
)


@pytest.mark.rule("A2")
@given(files, files)
def test_every_file_is_added_or_removed_or_rewritten_or_unchanged(
    before: dict[str, bytes], now: dict[str, bytes]
) -> None:
    old, new = publish(before), publish(now)
    change = compare(old.manifest.pairs, new.manifest.pairs)
    assert change.added == tuple(sorted(old.uri(path) for path in now if path not in before))
    assert change.removed == tuple(sorted(old.uri(path) for path in before if path not in now))
    assert change.rewritten == tuple(
        sorted(old.uri(path) for path in before if path in now and before[path] != now[path])
    )
    assert not change.became_dynamic
    assert bool(change) == (before != now)


@pytest.mark.rule("A2")
@given(files)
def test_a_skill_that_became_dynamic_lost_every_file_it_had(before: dict[str, bytes]) -> None:
    old = publish(before)
    change = compare(old.manifest.pairs, None)
    assert change == ManifestChange(removed=tuple(sorted([*map(old.uri, before), old.entry.uri])), became_dynamic=True)
    assert change


def test_a_skill_that_was_dynamic_gains_every_file_it_has() -> None:
    now = publish({"a.md": b""})
    assert compare((), now.manifest.pairs) == ManifestChange(added=(now.entry.uri, now.uri("a.md")))


@pytest.mark.rule("A2")
def test_a_file_listed_under_another_spelling_of_its_uri_is_shown_as_moved() -> None:
    plain, spelled = publish(at="skill://acme/refunds"), publish(at="skill://ac%6De/refunds")
    change = compare(plain.manifest.pairs, spelled.manifest.pairs)
    assert change == ManifestChange(added=(spelled.entry.uri,), removed=(plain.entry.uri,))


def test_no_change_is_false() -> None:
    assert not ManifestChange()
    assert ManifestChange(became_dynamic=True)
    assert all([ManifestChange(added=("x",)), ManifestChange(removed=("x",)), ManifestChange(rewritten=("x",))])
