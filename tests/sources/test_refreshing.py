"""Whatever happens to a directory, what is published after a refresh is what a first reading would publish.

Two things are kept on purpose: the last good version of a skill that is broken now, and what lies in a directory that
cannot be read any more. What a first reading finds is asked of `publish_tree`, which knows no past.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillquay.core.entries import Manifest
from skillquay.sources.tree import DirectorySource, Remark
from tests.sources.builders import Memory, clock_ahead, open_tree, ordinary_user
from tests.sources.trees import Model, Operation, Tree, below, open_all, operations

if TYPE_CHECKING:
    from skillquay.core.catalog import Listed
    from skillquay.core.uris import SkillUri


@pytest.mark.rule("F1", "E2", "U8")
@settings(max_examples=200)
@given(
    st.sets(below, max_size=6),
    st.lists(st.lists(operations, min_size=1, max_size=4), min_size=1, max_size=12),
    st.booleans(),
    st.sampled_from([(), ("acme", "x y")]),
    st.booleans(),
)
def test_after_any_file_operations_a_refresh_publishes_what_a_first_reading_would(
    start: set[str], steps: list[list[Operation]], ahead: bool, prefix: tuple[str, ...], is_part: bool
) -> None:
    is_part = is_part and bool(prefix)
    with ExitStack() as stack:
        tree = Tree(stack.enter_context(open_tree()) / "one")
        tree.root.mkdir()
        stack.callback(open_all, tree.root)
        if ahead:  # then units have stamps, and are passed over where those fit
            stack.enter_context(clock_ahead())
        model, store = Model(tree, prefix, is_part=is_part), Memory()
        source = DirectorySource(str(tree.root), prefix=prefix, is_part=is_part)
        source.read({}, store)
        begin: list[Operation] = [("write_a_good_skill", path, "") for path in sorted(start)]
        for step in [begin, *steps]:
            for operation in step:
                tree.do(*operation)
            check_refresh(source, tree, model, store)


def check_refresh(source: DirectorySource, tree: Tree, model: Model, store: Memory) -> None:
    before = published(source)
    with ordinary_user():
        difference = source.refresh(tree.changed, store)
        first = DirectorySource(str(tree.root), prefix=model.prefix, is_part=model.is_part)
        first.read({}, Memory())
    tree.changed = []
    model.look()
    now = published(source)
    assert now == model.published
    assert len(now) == sum(len(unit.skills) for unit in source.units.values())
    unmoved = {uri: old for uri, old in before.items() if old not in difference.removed}
    assert unmoved | {new.uri: new for new in difference.added} == now
    assert remarks(source) == remarks(first)
    for listed in now.values():
        assert isinstance(listed.entry.resources, Manifest)
        assert all(map(store.has, listed.entry.resources.files))
    units = [Path(location) for location in source.units]
    assert not [(inner, outer) for inner in units for outer in units if outer in inner.parents]


def published(source: DirectorySource) -> dict[SkillUri, Listed]:
    return {listed.uri: listed for unit in source.units.values() for listed in unit.skills}


def remarks(source: DirectorySource) -> set[Remark]:
    """Without those of the past, and of links outside every skill: where they lead is nobody's business."""
    found = {remark for remark in source.remarks if remark.finding.kind != "last-good"}
    return {remark for remark in found if (remark.finding.kind, remark.finding.file) != ("link", ".")}
