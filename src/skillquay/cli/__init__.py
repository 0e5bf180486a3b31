"""The command line. Importing this costs next to nothing: each command imports what it needs when it runs."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run `skillquay`. The version is answered before anything heavy is imported."""
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
    try:
        app()
        sys.stdout.flush()
    except OSError as error:
        sys.exit(f"skillquay: the output cannot be written: {error.strerror}.")
