"""The command line. Importing this costs next to nothing: each command imports what it needs when it runs."""

from __future__ import annotations

import io
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run `skillquay`. Where the output cannot be written, the exit status is 2."""
    _stand_in()
    try:
        try:
            _run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"skillquay: the output cannot be written: {error.strerror}.\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of it is not tried again on the way out
        sys.exit(2)


def _run() -> None:
    """The version is answered before anything heavy is imported."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from skillquay import __version__

        sys.stdout.write(f"skillquay {__version__}\n")
        return
    import signal

    from skillquay.cli.app import app

    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has seen enough ends us, quietly
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()


def _stand_in() -> None:
    """Open nothing at all in place of a standard stream that is closed: no other file may get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open
