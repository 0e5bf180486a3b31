"""What a module offers is what it says it offers."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in sorted((SOURCE / "skillquay").rglob("*.py"))
    if path.name not in {"__init__.py", "__main__.py", "app.py"}
]


@pytest.mark.parametrize("name", ["skillquay", *MODULES])
def test_the_public_names_of_a_module_are_sorted_and_exist(name: str) -> None:
    module = importlib.import_module(name)
    names: list[str] = module.__all__
    constants_first = sorted(names, key=lambda each: (not each.isupper(), not each[0].isupper(), each))
    assert names == constants_first or names == sorted(names)
    assert all(hasattr(module, each) for each in names)


def test_the_version_is_the_one_of_the_package() -> None:
    from importlib.metadata import version

    import skillquay

    assert version("skillquay") == skillquay.__version__
