"""The commands and their options; what each does is in a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="skillquay",
    help="Publish, verify and use Agent Skills over MCP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse skills with a field out of format, too.")]


def _version(wanted: bool) -> None:
    if wanted:
        from skillquay import __version__

        typer.echo(f"skillquay {__version__}")
        raise typer.Exit


@app.callback()
def _skillquay(
    _version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Publish, verify and use Agent Skills over MCP."""


@app.command()
def lint(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH…", help="Directories of skills, single skills, or SKILL.md files.")
    ],
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend, and show the difference.")] = False,
    peers: Annotated[bool, typer.Option("--peers", help="Say which known readers would refuse a skill.")] = False,
    strict: Strict = False,
    show_all: Annotated[bool, typer.Option("--all", help="Show every finding, however many there are.")] = False,
    as_json: Json = False,
) -> None:
    """Check skills against the format and what their readers expect.

    Exits with 0 when no skill has an error, 1 when one has, 2 when the command itself is wrong.
    """
    from skillquay.cli.lint import run

    raise typer.Exit(run(paths, fix=fix, peers=peers, strict=strict, show_all=show_all, as_json=as_json))


@app.command("list")
def list_(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A directory of skills, or one skill.")],
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """List the skills in a directory tree as they would be published, and those that would not be.

    Exits with 0, or 2 when the command itself is wrong.
    """
    from skillquay.cli.list import run

    raise typer.Exit(run(path, strict=strict, as_json=as_json))
