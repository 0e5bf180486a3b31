"""`skills.py:name` on the command line: a `Skills` object that a Python file makes, with functions of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillquay.server.extension import Skills

__all__ = ["PythonFileError", "is_python", "load_skills"]

_FORM = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


class PythonFileError(ValueError):
    """A Python file does not hold the skills it was said to; the message says what to do."""


def is_python(path: str) -> bool:
    """True for a path that names an object in a Python file."""
    return _FORM.fullmatch(path) is not None


def load_skills(path: str) -> Skills:
    """Run the file, and take the object."""
    from skillquay.server.extension import Skills  # noqa: PLC0415 - whether a path is Python must be told before

    match = _FORM.fullmatch(path)
    assert match is not None
    file, name = match.groups()
    if not os.path.isfile(file):
        raise PythonFileError(f'there is no file "{file}".')
    module_name = f"skillquay_served_{os.path.basename(file)[:-3]}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PythonFileError(f'"{file}" cannot be run: {_reason(error, file)}') from error
    skills = getattr(module, name, None)
    if not isinstance(skills, Skills):
        raise PythonFileError(f'"{file}" has no Skills object named "{name}".')
    return skills


def _reason(error: Exception, file: str) -> str:
    """What went wrong, and in which line of the file."""
    path = os.path.abspath(file)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"
