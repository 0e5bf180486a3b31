"""The command line. Importing this costs next to nothing: each command imports what it needs when it runs."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run `skillquay`. The version is answered before anything heavy is imported."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from skillquay import __version__

        sys.stdout.write(f"skillquay {__version__}\n")
        return
    from skillquay.cli.app import app

    app()
