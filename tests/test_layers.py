"""Imports point one way: the core knows no shell, and does no I/O."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "skillquay"
LAYERS = [
    "errors",
    "core",
    "wire",
    "archives",
    "sources",
    "dialects",
    "server",
    "testing",
    "host",
    "bridge",
    "console",
    "cli",
]
NOT_IN_CORE = {"anyio", "asyncio", "mcp", "pydantic", "os", "pathlib", "io", "logging", "time", "random", "secrets"}
NOT_IN_CORE |= {"socket", "subprocess", "shutil", "tempfile", "threading", "sqlite3"}
CORE_MAY_USE = {"yaml"}
MODULES = sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.add(str(node.module))
    return found


def layer(module: str) -> int:
    parts = module.split(".")
    return LAYERS.index(parts[1]) if len(parts) > 1 else -1


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_layers_above_its_own(path: Path) -> None:
    own = path.relative_to(SOURCE).with_suffix("").parts[0]
    if own in {"__init__", "__main__"}:
        return
    for module in imports(path):
        if module.split(".")[0] == "skillquay":
            assert layer(module) <= LAYERS.index(own), f"{own} imports {module}"


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_the_core_does_no_io_and_knows_no_clock(path: Path) -> None:
    roots = {module.split(".")[0] for module in imports(path)}
    assert not roots & NOT_IN_CORE
    assert roots <= set(sys.stdlib_module_names) | {"skillquay"} | CORE_MAY_USE
    names = {node.id for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)}
    assert not names & {"open", "print", "input"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
