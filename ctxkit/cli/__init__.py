"""The `ctxkit` command: one Typer app, one command a file; AgentScope is imported only by the command that runs."""

from importlib import metadata
from typing import Annotated

import typer

from ctxkit.cli.config import config
from ctxkit.cli.demo import demo
from ctxkit.cli.profiles import profiles
from ctxkit.cli.repair import repair

app = typer.Typer(
    name="ctxkit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    """Print the versions of ctxkit and of the host, and leave."""
    if wanted:
        print(", ".join(f"{name} {_version(name)}" for name in ("agentscope-ctxkit", "agentscope")))
        raise typer.Exit


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "(not installed)"


@app.callback()
def ctxkit(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Let an AgentScope agent run for ever on a finite context window."""


app.command()(demo)
app.command()(profiles)
app.command()(repair)
app.add_typer(config)
