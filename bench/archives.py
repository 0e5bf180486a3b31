"""Pack and unpack skills, against `tarfile` and `zipfile` alone doing the same work.

Both sides compress at the same level, pack files that are in memory into memory, and unpack bytes into memory or into
directories that are not there before. The standard library's side checks nothing.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import statistics
import tarfile
import tempfile
import time
import zipfile
from functools import partial
from typing import TYPE_CHECKING

from bench.generate import generate
from bench.table import Row
from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.packing import LEVEL, PackedFile, pack
from skillquay.archives.unpacking import unpack, unpack_into

if TYPE_CHECKING:
    from collections.abc import Callable

TREE = os.path.join("build", "bench", "200-skills")
ROUNDS = 9
WANTED = 0.8

Skill = dict[str, PackedFile]


def rows() -> list[Row]:
    skills = read_skills()
    large = [large_skill(skills[0])]
    kinds = (f"{len(skills)} skills", skills), ("a file of 10 MiB", large)
    return [row for name in ArchiveFormat for what, each in kinds for row in format_rows(name, what, each)]


def read_skills() -> list[Skill]:
    """200 skills of five files, and one of 500 files."""
    generate(TREE, 200, teams=1)
    skills: list[Skill] = []
    for location, _, _ in sorted(os.walk(os.path.join(TREE, "team-0"))):
        if os.path.exists(os.path.join(location, "SKILL.md")):
            skills.append(read_skill(location))
    large = {f"{number}/{path}": file for number, skill in enumerate(skills[:100]) for path, file in skill.items()}
    return [*skills, {"SKILL.md": skills[0]["SKILL.md"]} | large]


def large_skill(skill: Skill) -> Skill:
    """One with a file of 10 MiB that half of can be squeezed out."""
    return skill | {"data.txt": PackedFile(random.Random(2640).randbytes(5 * 1024 * 1024).hex().encode())}


def read_skill(location: str) -> Skill:
    files: Skill = {}
    for directory, _, names in os.walk(location):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, location)] = PackedFile(file.read(), name.endswith(".py"))
    return files


def format_rows(archive_format: ArchiveFormat, what: str, skills: list[Skill]) -> list[Row]:
    library, pack_alone, unpack_alone, read_alone = {
        ArchiveFormat.TAR_GZ: ("tarfile", pack_tar, unpack_tar, read_tar),
        ArchiveFormat.ZIP: ("zipfile", pack_zip, unpack_zip, read_zip),
    }[archive_format]
    archives = [pack(skill, archive_format) for skill in skills]
    return [
        compare(
            f"pack {what} as {archive_format}",
            library,
            lambda: timed(lambda _: [pack(skill, archive_format) for skill in skills]),
            lambda: timed(lambda _: [pack_alone(skill) for skill in skills]),
        ),
        compare(
            f"unpack {what} from {archive_format}, in memory",
            library,
            lambda: timed(lambda _: [unpack(data, archive_format) for data in archives]),
            lambda: timed(lambda _: [read_alone(data) for data in archives]),
        ),
        compare(
            f"unpack {what} from {archive_format}, to disk",
            library,
            lambda: timed(lambda place: unpack_all(archives, place, partial(unpack_into_place, archive_format))),
            lambda: timed(lambda place: unpack_all(archives, place, unpack_alone)),
        ),
    ]


def compare(what: str, library: str, ours: Callable[[], float], alone: Callable[[], float]) -> Row:
    """Both take turns; the machine's speed drifts, so each run is compared with the one right before it."""
    pairs = [(alone(), ours()) for _ in range(ROUNDS + 1)][1:]
    ratio = statistics.median(bare / run for bare, run in pairs)
    bare, run = (statistics.median(times) for times in zip(*pairs, strict=True))
    return Row(
        what=what,
        measured=f"{run * 1000:.0f} ms",
        against=f"{library} {bare * 1000:.0f} ms",
        ratio=f"{ratio:.2f} x as fast",
        wanted=f">= {WANTED:.2f} x",
        reached=ratio >= WANTED,
    )


def timed(work: Callable[[str], object]) -> float:
    """How long something takes that may write into a new directory; making and removing that does not count."""
    place = tempfile.mkdtemp(dir=os.path.dirname(TREE))
    try:
        start = time.perf_counter()
        work(place)
        return time.perf_counter() - start
    finally:
        shutil.rmtree(place)


def unpack_all(archives: list[bytes], place: str, unpack: Callable[[bytes, str], object]) -> None:
    for number, data in enumerate(archives):
        unpack(data, os.path.join(place, str(number)))


def unpack_into_place(archive_format: ArchiveFormat, data: bytes, place: str) -> None:
    unpack_into(data, archive_format, place)


def pack_tar(skill: Skill) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=LEVEL) as archive:
        for path, file in skill.items():
            info = tarfile.TarInfo(path)
            info.size = len(file.data)
            archive.addfile(info, io.BytesIO(file.data))
    return out.getvalue()


def unpack_tar(data: bytes, place: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        archive.extractall(place, filter="fully_trusted")


def read_tar(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {member.name: file.read() for member in archive if (file := archive.extractfile(member))}


def pack_zip(skill: Skill) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path, file in skill.items():
            archive.writestr(path, file.data)
    return out.getvalue()


def unpack_zip(data: bytes, place: str) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(place)


def read_zip(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
