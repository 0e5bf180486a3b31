"""Cached content is hashed on every access, private, bounded, and safe against crashes, full disks and each other."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillquay.core.context import render_file
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.verification import VerifiedFile, verify_file
from skillquay.errors import ConfigurationError
from skillquay.host.cache import CacheUse, ContentCache, default_cache_directory
from tests.core.builders import ACME, EVIL, Published, publish

if TYPE_CHECKING:
    from skillquay.host.configuration import Problem

ROOT = Path(__file__).parent.parent.parent
REFUNDS = publish({"examples/email.md": b"Dear customer,\n", "empty": b""})
EMAIL = REFUNDS.uri("examples/email.md")


class Cache(ContentCache):
    """A cache whose reports are kept."""

    def __init__(self, directory: Path, *, limit: int = 10_000_000) -> None:
        self.reported: list[Problem] = []
        super().__init__(str(directory), report=self.reported.append, limit=limit)

    def put(self, published: Published, path: str, server: ServerLabel = ACME) -> Path:
        """Write a file of an honest skill; the answer is where it lies."""
        uri = published.uri(path)
        self.write(published.id(server), verify_file(published.entry, uri, published.files[path]))
        return self.place(published, path, server)

    def place(self, published: Published, path: str, server: ServerLabel = ACME) -> Path:
        record = published.manifest.find(published.uri(path))
        assert record is not None
        return Path(self.directory, *published.id(server).cache_path(record.digest))

    def get(self, published: Published, path: str, server: ServerLabel = ACME) -> bytes | None:
        file = self.read(published.id(server), published.entry, published.uri(path))
        assert file is None or isinstance(file, VerifiedFile)
        return None if file is None else file.data

    def files(self) -> list[Path]:
        return sorted(path for path in Path(self.directory).rglob("*") if not path.is_dir())


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def numbered(count: int, size: int) -> Published:
    """A skill with this many different files of this size."""
    return publish({f"{number:03}": f"{number:03}".encode().ljust(size, b"x") for number in range(count)})


# K1: hashed on every access


@pytest.mark.rule("K1")
def test_a_file_is_read_back_as_a_verified_file_of_the_held_entry(cache: Cache) -> None:
    assert cache.get(REFUNDS, "examples/email.md") is None
    cache.put(REFUNDS, "examples/email.md")
    cache.put(REFUNDS, "empty")
    file = cache.read(REFUNDS.id(), REFUNDS.entry, EMAIL)
    assert file is not None
    assert (file.uri, file.data) == (EMAIL, b"Dear customer,\n")
    assert cache.get(REFUNDS, "empty") == b""
    assert cache.reported == []


@pytest.mark.rule("K1")
@pytest.mark.rule("N1")
def test_content_of_one_server_or_skill_is_never_given_for_another(cache: Cache) -> None:
    cache.put(REFUNDS, "examples/email.md")
    elsewhere = ServerLabel(label=ACME.label, scope="another workspace")
    assert cache.get(REFUNDS, "examples/email.md", EVIL) is None
    assert cache.get(REFUNDS, "examples/email.md", elsewhere) is None
    twin = publish({"examples/email.md": b"Dear customer,\n"}, at="skill://other/refunds")
    assert cache.get(twin, "examples/email.md") is None
    assert cache.get(REFUNDS, "examples/email.md") == b"Dear customer,\n"


@pytest.mark.rule("K1")
def test_a_changed_entry_is_a_miss_and_the_old_content_stays_for_the_old_entry(cache: Cache) -> None:
    cache.put(REFUNDS, "examples/email.md")
    changed = publish({"examples/email.md": b"Hello customer\n"})
    assert cache.get(changed, "examples/email.md") is None
    cache.put(changed, "examples/email.md")
    assert cache.get(changed, "examples/email.md") == b"Hello customer\n"
    assert cache.get(REFUNDS, "examples/email.md") == b"Dear customer,\n"
    assert cache.reported == []


@pytest.mark.rule("K1")
def test_what_the_entry_does_not_list_or_nobody_can_verify_is_a_miss(cache: Cache) -> None:
    cache.put(REFUNDS, "examples/email.md")
    dynamic = publish(dynamic=True)
    assert cache.read(REFUNDS.id(), REFUNDS.entry, REFUNDS.uri("unlisted")) is None
    assert cache.read(dynamic.id(), dynamic.entry, dynamic.entry.uri) is None
    assert cache.reported == []


@pytest.mark.rule("K1")
@pytest.mark.parametrize(
    ("path", "tampered"),
    [
        ("examples/email.md", b"Dear attacker,\n"),
        ("examples/email.md", b"Dear"),
        ("examples/email.md", b""),
        ("examples/email.md", b"Dear customer,\nand more"),
        ("empty", b"not empty"),
    ],
)
def test_a_rewritten_or_truncated_file_is_a_miss_is_told_of_and_is_gone(
    cache: Cache, path: str, tampered: bytes
) -> None:
    place = cache.put(REFUNDS, path)
    place.write_bytes(tampered)
    assert cache.get(REFUNDS, path) is None
    (problem,) = cache.reported
    assert problem.rule == "K1"
    assert "is not what was stored" in problem.message
    assert str(REFUNDS.uri(path)) in problem.message
    assert not place.exists()
    cache.put(REFUNDS, path)
    assert cache.get(REFUNDS, path) == REFUNDS.files[path]
    assert len(cache.reported) == 1


@pytest.mark.rule("K1")
@pytest.mark.parametrize("kind", ["link", "broken link", "fifo", "directory", "full directory"])
@pytest.mark.parametrize("path", ["examples/email.md", "empty"])
def test_something_else_in_a_files_place_is_never_followed_never_blocks_and_is_removed(
    cache: Cache, tmp_path: Path, kind: str, path: str
) -> None:
    place = cache.put(REFUNDS, path)
    place.unlink()
    outside = tmp_path / "outside"
    outside.write_bytes(REFUNDS.files[path])
    match kind:
        case "link":
            place.symlink_to(outside)
        case "broken link":
            place.symlink_to(tmp_path / "nowhere")
        case "fifo":
            os.mkfifo(place)
        case _:
            place.mkdir()
            if kind == "full directory":
                (place / "x").write_bytes(b"x")
    assert cache.get(REFUNDS, path) is None
    assert [problem.rule for problem in cache.reported] == ["K1"]
    assert not os.path.lexists(place)
    assert outside.read_bytes() == REFUNDS.files[path]


@pytest.mark.rule("K1")
def test_a_file_of_another_user_is_not_used(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(REFUNDS, "examples/email.md")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert cache.get(REFUNDS, "examples/email.md") is None
    assert [problem.rule for problem in cache.reported] == ["K1"]


@pytest.mark.rule("K1")
def test_only_a_verified_file_can_be_written(cache: Cache) -> None:
    for other in (b"bytes", REFUNDS.verified(), None):
        with pytest.raises(TypeError):
            cache.write(REFUNDS.id(), other)  # type: ignore[arg-type]
    assert cache.files() == []


# K2: where it lies


@pytest.mark.rule("K2")
def test_only_the_user_can_look_into_the_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "above" / "cache")
    before = os.umask(0)
    try:
        place = cache.put(REFUNDS, "examples/email.md")
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    for directory in (place.parent, place.parent.parent, Path(cache.directory)):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.rule("K2")
def test_a_cache_that_others_could_look_into_is_closed_to_them(cache: Cache) -> None:
    Path(cache.directory).mkdir(mode=0o755)
    cache.put(REFUNDS, "examples/email.md")
    assert stat.S_IMODE(Path(cache.directory).stat().st_mode) == 0o700


@pytest.mark.rule("K2")
def test_the_server_can_be_told_from_the_path(cache: Cache) -> None:
    place = cache.put(REFUNDS, "examples/email.md")
    server, skill, name = place.relative_to(cache.directory).parts
    assert server == ACME.directory
    assert server.startswith("acme@")
    assert skill == sha256(str(REFUNDS.entry.uri).encode()).hexdigest()
    assert name == sha256(b"Dear customer,\n").hexdigest()


@pytest.mark.rule("K2")
def test_names_that_fold_together_stay_distinct(cache: Cache) -> None:
    twins = [
        publish({name: f"{name} {at}".encode() for name in ("Readme", "README", "é", "e\u0301")}, at=f"skill://{at}/x")
        for at in ("a", "A", "é", "e\u0301")
    ]
    for twin in twins:
        for path in twin.files:
            cache.put(twin, path)
    for twin in twins:
        for path, data in twin.files.items():
            assert cache.get(twin, path) == data
    folded = {str(path).casefold() for path in cache.files()}
    assert len(folded) == sum(len(twin.files) for twin in twins)
    assert cache.reported == []


@pytest.mark.rule("K2")
@pytest.mark.parametrize(
    "path",
    [".agents/cache", ".claude", "x/skills/y", "Skills", ".CODEX/x", ".cursor/x", ".gemini/x", ".agents/skills/../x"],
)
def test_a_cache_where_agents_look_for_skills_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigurationError) as failure:
        Cache(tmp_path / path)
    assert failure.value.rule == "K2"
    assert "agents look for skills" in str(failure.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("K2")
def test_a_link_that_leads_where_agents_look_for_skills_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".agents" / "cache").mkdir(parents=True)
    (tmp_path / "harmless").symlink_to(tmp_path / ".agents" / "cache")
    with pytest.raises(ConfigurationError):
        Cache(tmp_path / "harmless")


@pytest.mark.rule("K2")
def test_by_default_the_cache_is_with_the_users_other_caches() -> None:
    directory = default_cache_directory()
    assert Path(directory).parts[-2:] == ("skillquay", "content")
    assert ContentCache(directory, report=print).directory == directory


# K3: served content stays served content


@pytest.mark.rule("K3")
def test_after_a_restart_content_is_still_content_of_its_server(tmp_path: Path) -> None:
    Cache(tmp_path / "cache").put(REFUNDS, "examples/email.md")
    again = Cache(tmp_path / "cache")
    file = again.read(REFUNDS.id(), REFUNDS.entry, EMAIL)
    assert file is not None
    text = render_file(file, REFUNDS.id())
    assert 'origin="MCP server acme"' in text
    assert "untrusted input" in text


@pytest.mark.rule("K3")
def test_removing_a_server_removes_its_cache_and_no_other(cache: Cache) -> None:
    elsewhere = ServerLabel(label=ACME.label, scope="another workspace")
    for server in (ACME, EVIL, elsewhere):
        cache.put(REFUNDS, "examples/email.md", server)
    cache.forget_server(ACME)
    cache.forget_server(ServerLabel(label="never-seen", scope=""))
    assert cache.get(REFUNDS, "examples/email.md") is None
    assert cache.get(REFUNDS, "examples/email.md", EVIL) is not None
    assert cache.get(REFUNDS, "examples/email.md", elsewhere) is not None
    assert not (Path(cache.directory) / ACME.directory).exists()
    assert cache.reported == []


@pytest.mark.rule("K3")
def test_a_link_in_a_servers_place_is_removed_and_not_what_it_leads_to(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").write_bytes(b"x")
    Path(cache.directory).mkdir()
    (Path(cache.directory) / ACME.directory).symlink_to(tmp_path / "precious")
    cache.forget_server(ACME)
    assert os.listdir(cache.directory) == []
    assert (tmp_path / "precious" / "x").exists()


@pytest.mark.rule("K3")
def test_a_cache_that_cannot_be_removed_is_told_of(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(REFUNDS, "examples/email.md")

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    cache.forget_server(ACME)
    (problem,) = cache.reported
    assert "cannot be removed: permission denied" in problem.message
    assert ACME.directory in problem.message


def test_everything_is_cleared_but_what_is_not_the_caches_own(cache: Cache) -> None:
    cache.clear()
    for server in (ACME, EVIL):
        cache.put(REFUNDS, "examples/email.md", server)
    own = Path(cache.directory) / "notes"
    own.mkdir()
    (own / "x").write_bytes(b"x")
    cache.clear()
    assert cache.files() == [own / "x"]
    assert cache.usage() == []
    cache.put(REFUNDS, "empty")
    assert cache.get(REFUNDS, "empty") == b""
    assert cache.reported == []


def test_use_is_told_for_each_server_by_its_label(cache: Cache) -> None:
    assert cache.usage() == []
    odd = ServerLabel(label="Acmé = @x", scope="s")
    other = publish({"a": b"aa"}, at="skill://other")
    cache.put(REFUNDS, "examples/email.md")
    cache.put(other, "a")
    cache.put(other, "SKILL.md", odd)
    (Path(cache.directory) / odd.directory / "x").mkdir()
    (Path(cache.directory) / odd.directory / "x" / ".writing-0").write_bytes(b"unfinished")
    size = len(other.skill_md)
    assert cache.usage() == sorted(
        [
            CacheUse(server_directory=ACME.directory, label="acme", skills=2, files=2, size=17),
            CacheUse(server_directory=odd.directory, label="Acmé = @x", skills=1, files=1, size=size),
        ],
        key=lambda use: use.server_directory,
    )


# The bound


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_past_the_limit_what_was_used_longest_ago_goes(tmp_path: Path) -> None:
    skill = numbered(11, 100)
    cache = Cache(tmp_path / "cache", limit=1000)
    for number in range(10):
        age(cache.put(skill, f"{number:03}"), 10_000 - number)
    assert len(cache.files()) == 10
    assert cache.get(skill, "000") is not None  # used now, and so the youngest
    cache.put(skill, "010")
    held = [path for path in skill.files if cache.get(skill, path) is not None]
    assert held == ["000", "003", "004", "005", "006", "007", "008", "009", "010"]
    assert cache.reported == []


def test_the_limit_counts_what_was_there_before(tmp_path: Path) -> None:
    skill = numbered(20, 100)
    for number in range(20):
        age(Cache(tmp_path / "cache", limit=5000).put(skill, f"{number:03}"), 10_000 - number)
    cache = Cache(tmp_path / "cache", limit=1000)
    cache.put(skill, "000")
    assert sum(path.stat().st_size for path in cache.files()) == 900
    assert cache.get(skill, "000") is not None


def test_a_skill_and_a_server_of_which_nothing_is_left_leave_no_directory(tmp_path: Path) -> None:
    skill = numbered(12, 100)
    cache = Cache(tmp_path / "cache", limit=1000)
    age(cache.put(skill, "000", EVIL), 10_000)
    for number in range(11):
        cache.put(skill, f"{number:03}")
    assert os.listdir(cache.directory) == [ACME.directory]


def test_a_file_larger_than_the_whole_cache_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=1000)
    cache.put(numbered(1, 1001), "000")
    assert cache.files() == []
    assert cache.reported == []


def test_use_is_noted_at_most_once_a_minute(cache: Cache) -> None:
    place = cache.put(REFUNDS, "examples/email.md")
    age(place, 30)
    recent = place.stat().st_mtime_ns
    assert cache.get(REFUNDS, "examples/email.md") is not None
    assert place.stat().st_mtime_ns == recent
    for seconds in (3600, -3600):  # a clock that was set back must not keep a file forever
        age(place, seconds)
        assert cache.get(REFUNDS, "examples/email.md") is not None
        assert abs(place.stat().st_mtime - time.time()) < 60


@pytest.mark.rule("K4")
def test_what_a_dead_writer_left_is_removed_after_an_hour_and_never_read(cache: Cache, tmp_path: Path) -> None:
    directory = cache.put(REFUNDS, "examples/email.md").parent
    old, young = directory / ".writing-old", directory / ".writing-young"
    for path in (old, young):
        path.write_bytes(b"half")
    age(old, 3700)
    again = Cache(tmp_path / "cache")
    again.put(REFUNDS, "empty")
    assert not old.exists()
    assert young.exists()


# K4: crashes, full disks, other processes


WRITER = """
import sys
from pathlib import Path
from tests.host.test_cache import Cache, numbered
cache, skill = Cache(Path(sys.argv[1])), numbered(8, 1_000_000)
print("ready", flush=True)
while True:
    for path in skill.files:
        cache.put(skill, path)
"""


def child(program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if program == WRITER:  # it is killed, and would leave a broken measurement of what was covered
        environment = {name: value for name, value in environment.items() if not name.startswith("COVERAGE_")}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


@pytest.mark.rule("K4")
def test_a_writer_that_is_killed_at_any_moment_leaves_nothing_half_written(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    skill = numbered(8, 1_000_000)
    cache = Cache(directory)
    for round_number in range(5):
        with child(WRITER, str(directory)) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for _ in range(20 * round_number):  # reading while it is written, and a different moment each time
                for path, data in skill.files.items():
                    assert cache.get(skill, path) in {None, data}
            process.send_signal(signal.SIGKILL)
        for place in cache.files():
            if not place.name.startswith(".writing-"):
                assert sha256(place.read_bytes()).hexdigest() == place.name
        for path, data in skill.files.items():
            assert cache.get(skill, path) in {None, data}
    assert cache.reported == []


FULL_DISK = """
import resource, sys
from pathlib import Path
from tests.host.test_cache import Cache, numbered
cache = Cache(Path(sys.argv[1]))
large, small = numbered(2, 1_000_000), numbered(1, 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, resource.RLIM_INFINITY))
for path in ("000", "001", "000"):
    cache.put(large, path)
    assert cache.get(large, path) is None
(problem,) = cache.reported
assert problem.rule == "K4" and "cannot be cached" in problem.message, problem
assert cache.files() == []
cache.put(small, "000")
assert cache.get(small, "000") == small.files["000"]
cache.put(large, "000")
assert len(cache.reported) == 2
print("done")
"""


@pytest.mark.rule("K4")
def test_a_full_disk_is_told_of_once_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    with child(FULL_DISK, str(tmp_path / "cache")) as process:
        said, _ = process.communicate(timeout=60)
    assert (said, process.returncode) == ("done\n", 0)


@pytest.mark.rule("K4")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_file_in_the_place_of_a_directory_is_told_of_and_raises_nothing(cache: Cache, level: int) -> None:
    place = cache.place(REFUNDS, "examples/email.md")
    blocked = (Path(cache.directory), place.parent.parent, place.parent)[level]
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_bytes(b"x")
    cache.put(REFUNDS, "examples/email.md")
    assert cache.get(REFUNDS, "examples/email.md") is None
    assert {problem.rule for problem in cache.reported} == {"K4"}
    assert cache.usage() == [] or cache.usage()[0].server_directory == ACME.directory


@pytest.mark.rule("K4")
def test_a_directory_that_is_gone_whenever_it_was_made_is_told_of(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(cache.directory).mkdir()
    monkeypatch.setattr(os, "mkdir", lambda *_: None)
    cache.put(REFUNDS, "examples/email.md")
    assert [problem.rule for problem in cache.reported] == ["K4"]


def test_a_file_system_that_gives_few_bytes_at_a_time_is_read_to_the_end(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(REFUNDS, "examples/email.md")
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 4)))
    assert cache.get(REFUNDS, "examples/email.md") == b"Dear customer,\n"


@pytest.mark.rule("K4")
def test_a_full_directory_in_a_files_place_never_stops_a_verified_read(cache: Cache) -> None:
    place = cache.place(REFUNDS, "examples/email.md")
    (place / "x").mkdir(parents=True)
    cache.put(REFUNDS, "examples/email.md")
    assert [problem.rule for problem in cache.reported] == ["K4"]
    assert cache.get(REFUNDS, "examples/email.md") is None
    cache.put(REFUNDS, "examples/email.md")
    assert cache.get(REFUNDS, "examples/email.md") == b"Dear customer,\n"


SHARING = """
import sys
from pathlib import Path
from tests.core.builders import ACME, EVIL
from tests.host.test_cache import Cache, numbered
cache, skill = Cache(Path(sys.argv[1]), limit=2000), numbered(30, 100)
for round_number in range(30):
    server = (ACME, EVIL)[round_number % 2]
    for path, data in skill.files.items():
        assert cache.get(skill, path, server) in {None, data}
        cache.put(skill, path, server)
        assert cache.get(skill, path, server) in {None, data}
    if round_number % 7 == 6:
        cache.forget_server(server)
    if round_number % 11 == 10:
        cache.clear()
    cache.usage()
# A server that is removed while another process writes of it may lose that write, and say so; nothing is ever wrong.
assert all(problem.rule == "K4" for problem in cache.reported), cache.reported
print("done")
"""


@pytest.mark.rule("K4")
def test_two_processes_share_one_cache_while_both_write_evict_and_remove(tmp_path: Path) -> None:
    with child(SHARING, str(tmp_path / "cache")) as one, child(SHARING, str(tmp_path / "cache")) as two:
        answers = [each.communicate(timeout=120)[0] for each in (one, two)]
    assert answers == ["done\n", "done\n"]


def test_a_skill_spelled_another_way_is_cached_apart_and_read_the_same(cache: Cache) -> None:
    cache.put(REFUNDS, "examples/email.md")
    spelled = publish({"examples/email.md": b"Dear customer,\n"}, at="skill://r%65funds")
    assert SkillId(server=ACME, uri=spelled.entry.uri) == REFUNDS.id()
    assert cache.get(spelled, "examples/email.md") is None
    cache.put(spelled, "examples/email.md")
    assert cache.get(spelled, "examples/email.md") == b"Dear customer,\n"
