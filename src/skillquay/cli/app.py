"""The commands and their options; what each does is in a module of its own."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from skillquay.cli.host_app import host_app

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


@app.command()
def pack(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A skill's directory, or its SKILL.md.")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write it, as .tar.gz or .zip; NAME.tar.gz unless told."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Pack a skill into one file, with the files that would be served.

    Exits with 0, 1 when the skill cannot be packed, or 2 when the command itself is wrong.
    """
    from skillquay.cli.pack import run_pack

    raise typer.Exit(run_pack(path, output, as_json=as_json))


@app.command()
def unpack(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An archive of a skill, .tar.gz or .zip.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="The directory to make; the file's name unless told."),
    ] = None,
    digest: Annotated[
        str | None, typer.Option(metavar="SHA256", help="Unpack only what has this digest, sha256:… in full.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Unpack a skill into a new directory, all of it or nothing.

    Exits with 0, 1 when the archive is refused, or 2 when the command itself is wrong.
    """
    from skillquay.cli.pack import run_unpack

    raise typer.Exit(run_unpack(file, output, digest=digest, as_json=as_json))


@app.command()
def serve(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH…", help="Directories of skills, single skills, or SKILL.md files.")
    ],
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 is any free one.")] = (
        "127.0.0.1:8000"
    ),
    stdio: Annotated[bool, typer.Option("--stdio", help="Serve one client on standard input and output.")] = False,
    name: Annotated[str, typer.Option(help="The name the server gives itself.")] = "skillquay",
    prefix: Annotated[str, typer.Option(help="Publish below this path, such as acme/billing.")] = "",
    scheme: Annotated[str, typer.Option(help="Publish under this scheme, such as github, instead of skill.")] = "skill",
    page_size: Annotated[int, typer.Option(min=1, help="The most skills in one page of a listing.")] = 250,
    ttl: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long clients may keep an answer.")] = 60,
    no_watch: Annotated[bool, typer.Option("--no-watch", help="Do not look for changes while serving.")] = False,
    no_index: Annotated[
        bool,
        typer.Option("--no-index", help="Do not serve skill://index.json and archives, for hosts of older drafts."),
    ] = False,
    dialect: Annotated[
        Literal["v1", "sep-2076"],
        typer.Option(help="What this endpoint speaks: the extension, or the proposal SEP-2076."),
    ] = "v1",
    workers: Annotated[int, typer.Option(min=1, help="Processes that serve side by side.")] = 1,
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Clients must send one of these bearer tokens, one a line.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A host name that leads here; may be repeated.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen for other machines without asking for a token.")
    ] = False,
    strict: Strict = False,
) -> None:
    """Publish skills over MCP, and keep them up to date as they change.

    Exits with 0 after a signal, or 2 when the command itself is wrong.
    """
    from skillquay.cli.serve import run

    raise typer.Exit(
        run(
            paths,
            http=http,
            stdio=stdio,
            name=name,
            prefix=prefix,
            scheme=scheme,
            page_size=page_size,
            ttl=ttl,
            watch=not no_watch,
            index=not no_index,
            dialect=dialect,
            workers=workers,
            token_file=token_file,
            allowed_hosts=allow_host or [],
            insecure=insecure,
            strict=strict,
        )
    )


app.add_typer(host_app)
