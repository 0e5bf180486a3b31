"""The commands of the host and their options; what each does is in a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from skillquay.cli.hosting import Place

__all__ = ["host_app"]

host_app = typer.Typer()
_LOOK, _DECIDE, _KEPT = "Use skills: look", "Use skills: decide", "Use skills: what is kept"

Name = Annotated[str, typer.Argument(metavar="NAME", help="A skill, as `skillquay skills` names it.")]
NameOrUri = Annotated[
    str, typer.Argument(metavar="NAME", help="A skill by name, or LABEL:URI of one that is not listed.")
]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="Skills, as `skillquay skills` names them.")]
NamesOrUris = Annotated[
    list[str], typer.Argument(metavar="NAME…", help="Skills by name, or LABEL:URI of one not listed.")
]
SkillsOrServers = Annotated[
    list[str] | None, typer.Argument(metavar="NAME…", help="Skills by their names, or servers by their labels.")
]
OneServer = Annotated[
    str | None, typer.Option(metavar="LABEL", help="A server for sure, where a skill has the same name.")
]
Workspace = Annotated[str, typer.Option(metavar="DIR", help="The folder you work in.")]
State = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        envvar="SKILLQUAY_STATE",
        help="Where answers are kept: a file, or a postgresql:// URL.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Target = Annotated[str, typer.Argument(metavar="LABEL|URL", help="A server of this folder, or any by its URL.")]
Label = Annotated[str | None, typer.Option(metavar="LABEL", help="With a URL: the label your program gives it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask: the answer is yes.")]


class _TakesCommand(TyperCommand):
    """Leaves alone what follows `--`: it is a command to run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what comes before."""
        if "--" in args:
            place = args.index("--")
            ctx.obj = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)


@host_app.command(rich_help_panel=_LOOK)
def skills(
    explain: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Say instead what this server speaks, and what that proves.")
    ] = None,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """List the skills of this folder, of yourself and of servers, and how things stand with each.

    Exits with 0, or 2 when what was approved cannot be read; with --explain, 1 when no skills were found there.
    """
    from skillquay.cli import explain as explaining
    from skillquay.cli import skills as listing

    place = _place(workspace, state, as_json)
    raise typer.Exit(listing.run(place) if explain is None else explaining.run(place, explain))


@host_app.command(rich_help_panel=_LOOK)
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD…", help="What the skill should be about.")],
    limit: Annotated[int, typer.Option(min=1, help="The most skills to list.")] = 10,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Find skills by words in their names, descriptions and, where they are local, instructions.

    Exits with 0, or 1 when nothing fits.
    """
    from skillquay.cli.skills import run_search

    raise typer.Exit(run_search(_place(workspace, state, as_json), words, limit=limit))


@host_app.command(rich_help_panel=_LOOK)
def show(name: NameOrUri, workspace: Workspace = ".", state: State = None, as_json: Json = False) -> None:
    """Show what is known of a skill before any of it is read: origin, files, requested tools, what changed."""
    from skillquay.cli.look import run_show

    raise typer.Exit(run_show(_place(workspace, state, as_json), name))


@host_app.command(rich_help_panel=_LOOK)
def files(name: NameOrUri, workspace: Workspace = ".", state: State = None, as_json: Json = False) -> None:
    """List the files of a skill."""
    from skillquay.cli.look import run_files

    raise typer.Exit(run_files(_place(workspace, state, as_json), name))


@host_app.command(rich_help_panel=_LOOK)
def read(
    name: NameOrUri,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file of the skill.")] = "SKILL.md",
    raw: Annotated[bool, typer.Option("--raw", help="Give the bytes as they are, to a file or a pipe.")] = False,
    visible: Annotated[
        bool, typer.Option("--visible", help="Mark each line, and tell of hidden characters, as on a terminal.")
    ] = False,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Read a file of a skill, verified where it is served. It approves nothing.

    Exits with 0, or 1 when the file is not what its server listed.
    """
    from skillquay.cli.look import run_read

    raise typer.Exit(run_read(_place(workspace, state, as_json), name, path, raw=raw, margin=visible))


@host_app.command(rich_help_panel=_LOOK)
def diff(
    name: Name,
    content: Annotated[bool, typer.Option("--content", help="Compare the text of the files, too.")] = False,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Show what changed in a skill since you last answered about it.

    Exits with 0 when nothing changed, 1 when something did, 2 when there is nothing to compare with.
    """
    from skillquay.cli.diff import run

    raise typer.Exit(run(_place(workspace, state, as_json), name, content=content))


@host_app.command(cls=_TakesCommand, rich_help_panel=_LOOK)
def verify(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET | -- COMMAND…",
            help="A directory of skills, a URL, a server in .mcp.json, or a command that is a server.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar='"NAME: VALUE"', help="Send this to the URL; ${VAR} is replaced; may be repeated."),
    ] = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="Take bare SKILL.md resources for skills, whatever .mcp.json says.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Start a server of .mcp.json although the folder is not trusted.")
    ] = False,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Read every file of every skill a server lists, and check it against the digests there are.

    Exits with 0 when nothing is wrong, 1 when something is not as listed, 2 when nothing could be looked at.
    """
    from skillquay.cli.verify import run

    place = _place(workspace, state, as_json)
    raise typer.Exit(run(place, target, context.obj, headers=header or [], scan=scan, yes=yes))


@host_app.command(rich_help_panel=_DECIDE)
def trust(
    no: Annotated[bool, typer.Option("--no", help="Take it back.")] = False,
    yes: Yes = False,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Trust this folder: load its skills and start the servers of its .mcp.json. Shows them first.

    Exits with 0, 1 when the answer was no, or 2 when there was nobody to ask.
    """
    from skillquay.cli.trust import run

    raise typer.Exit(run(_place(workspace, state, as_json), no=no, yes=yes))


@host_app.command(rich_help_panel=_DECIDE)
def approve(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Skills by name, or LABEL:URI of one not listed.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Also let code run while the skill is in use.")] = False,
    tools: Annotated[bool, typer.Option("--tools", help="Also grant the tools the skill asks for.")] = False,
    server: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Approve the skills of this server, all at once.")
    ] = None,
    yes: Yes = False,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Approve skills of servers as they are now. A skill that changes needs approval again.

    Exits with 0, 1 when something was not approved, or 2 when there was nobody to ask.
    """
    from skillquay.cli.answers import run_approve, run_approve_server
    from skillquay.cli.messages import fail

    place = _place(workspace, state, as_json)
    if bool(names) == (server is not None):
        raise typer.Exit(fail("name the skills to approve, or a server with --server."))
    if server is None:
        raise typer.Exit(run_approve(place, names or [], execute=execute, tools=tools, yes=yes))
    if execute or tools:
        raise typer.Exit(fail("--execute and --tools are granted to skills by name, not to a whole server."))
    raise typer.Exit(run_approve_server(place, server, yes=yes))


@host_app.command(rich_help_panel=_DECIDE)
def deny(names: NamesOrUris, workspace: Workspace = ".", state: State = None, as_json: Json = False) -> None:
    """Deny skills of servers: they are not loaded, nor asked about, until their content changes."""
    from skillquay.cli.answers import run_deny

    raise typer.Exit(run_deny(_place(workspace, state, as_json), names))


@host_app.command(rich_help_panel=_DECIDE)
def revoke(names: Names, workspace: Workspace = ".", state: State = None, as_json: Json = False) -> None:
    """Take back every answer about skills. Their servers need not be there.

    Exits with 0, or 1 when no answer stood.
    """
    from skillquay.cli.answers import run_revoke

    raise typer.Exit(run_revoke(_place(workspace, state, as_json), names))


@host_app.command(rich_help_panel=_DECIDE)
def enable(
    names: SkillsOrServers = None,
    server: OneServer = None,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Enable skills by their names, or servers by their labels."""
    from skillquay.cli.answers import run_switch

    raise typer.Exit(run_switch(_place(workspace, state, as_json), names or [], server, on=True))


@host_app.command(rich_help_panel=_DECIDE)
def disable(
    names: SkillsOrServers = None,
    server: OneServer = None,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Disable skills by their names, or servers by their labels: the model does not hear of them."""
    from skillquay.cli.answers import run_switch

    raise typer.Exit(run_switch(_place(workspace, state, as_json), names or [], server, on=False))


@host_app.command(rich_help_panel=_KEPT)
def approvals(workspace: Workspace = ".", state: State = None, as_json: Json = False) -> None:
    """List every answer that is kept, of all folders, standing or ended. No server is asked."""
    from skillquay.cli.history import run_approvals

    raise typer.Exit(run_approvals(_place(workspace, state, as_json)))


@host_app.command(rich_help_panel=_KEPT)
def audit(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only what happened to this skill.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most events to list.")] = 50,
    workspace: Workspace = ".",
    state: State = None,
    as_json: Json = False,
) -> None:
    """List what was decided, loaded and refused, the newest first. No server is asked."""
    from skillquay.cli.history import run_audit

    raise typer.Exit(run_audit(_place(workspace, state, as_json), name, limit=limit))


@host_app.command(rich_help_panel=_DECIDE)
def login(
    target: Target,
    label: Label = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only show the URL; open no browser.")] = False,
    workspace: Workspace = ".",
    state: State = None,
) -> None:
    """Log in, in your browser, to a server that wants it."""
    from skillquay.cli.login import run_login

    place = _place(workspace, state, as_json=False)
    raise typer.Exit(run_login(place, target, label=label, browser=not no_browser))


@host_app.command(rich_help_panel=_DECIDE)
def logout(target: Target, label: Label = None, workspace: Workspace = ".", state: State = None) -> None:
    """Forget the login to a server."""
    from skillquay.cli.login import run_logout

    raise typer.Exit(run_logout(_place(workspace, state, as_json=False), target, label=label))


@host_app.command(rich_help_panel=_KEPT)
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove it.")] = False,
    server: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Only what came from this server of the folder.")
    ] = None,
    workspace: Workspace = ".",
    as_json: Json = False,
) -> None:
    """Show how much verified content of servers is kept on disk, or remove it. Nothing depends on it."""
    from skillquay.cli.cache import run

    raise typer.Exit(run(workspace, server, clear=clear, as_json=as_json))


def _place(workspace: str, state: str | None, as_json: bool) -> Place:
    from skillquay.cli.hosting import Place

    return Place(workspace=workspace, state=state, as_json=as_json)
