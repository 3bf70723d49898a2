"""`ctxkit demo`: the same scripted work by the stock agent and by one with ctxkit, live, and a table at the end."""

import asyncio
import json
import logging
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ctxkit.cli.report import Noted

if TYPE_CHECKING:
    from ctxkit.cli.report import Race, Tell

WINDOW: Final = 16_384
"""Tokens of the demo's window where none is asked for: small, so that there is much to see in a minute."""
SMALLEST: Final = 8_000
"""Below this, AgentScope's own tools and instructions take half the window."""
LARGEST: Final = 200_000

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT)."""


def demo(
    *,
    window: Annotated[
        int, typer.Option(min=SMALLEST, max=LARGEST, help="Tokens of the context window, enforced by the model.")
    ] = WINDOW,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object with all figures, and nothing else.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Keep what the agents stored in this new or empty folder."),
    ] = None,
) -> None:
    """Watch a scripted agent with real tools outlive its context window. No key, no network, under a minute.

    It works through the installed Python standard library, which it only reads. The exit code is 0 if the agent with
    ctxkit came to the end and answered a question about the beginning right.
    """
    with ExitStack() as cleanup:
        folder = _kept(keep) if keep is not None else _temporary(cleanup)
        try:
            race = _watched(window, folder, as_json=as_json, kept=keep is not None)
        except KeyboardInterrupt:
            typer.echo("Stopped.", err=True)
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(0 if race.is_won else 1)


def _kept(folder: Path) -> Path:
    """Return an absolute folder that is there and empty."""
    folder = folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        msg = f"{str(folder)!r} is not empty; name a new folder, or empty it."
        raise typer.BadParameter(msg, param_hint="--keep")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        msg = f"{str(folder)!r} cannot be made ({exc.strerror}); name another folder."
        raise typer.BadParameter(msg, param_hint="--keep") from exc
    return folder


def _temporary(cleanup: ExitStack) -> Path:
    return Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="ctxkit-demo-", ignore_cleanup_errors=True)))


def _watched(window: int, folder: Path, *, as_json: bool, kept: bool) -> "Race":
    """Run the race in sight of whoever looks on, and show how it ended."""
    from rich.console import Console  # noqa: PLC0415 - `ctxkit --help` is to be quick

    from ctxkit.cli.screen import Screen  # noqa: PLC0415 - as above

    with Screen(Console(quiet=as_json, highlight=False), window_tokens=window) as screen:
        screen.opening()
        from ctxkit.cli.race import run_race  # noqa: PLC0415 - imports AgentScope, which takes seconds

        notes = _Notes(screen.show)
        with _quiet(notes):
            race = asyncio.run(run_race(window_tokens=window, folder=folder, tell=screen.show))
    if as_json:
        figures = race.to_json(kept_in=str(folder) if kept else None, notes=tuple(notes.lines))
        print(json.dumps(figures, ensure_ascii=False, indent=2))
    else:
        screen.closing(race, kept_in=folder if kept else None)
    return race


class _Notes(logging.Handler):
    """Shows what ctxkit warns of, and keeps it.

    Args:
        tell: Is told each line.
    """

    def __init__(self, tell: "Tell") -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Take a log record."""
        line = record.getMessage()
        self.lines.append(line)
        self._tell(Noted(text=line))


@contextmanager
def _quiet(notes: _Notes) -> Iterator[None]:
    """Keep AgentScope's log out of the demo, for the stock agent's end is told in words, and show ctxkit's in it.

    So is what asyncio warns of when Ctrl-C reaches the commands of the agents before it reaches the demo.
    """
    host, loop, ours = logging.getLogger("as"), logging.getLogger("asyncio"), logging.getLogger("ctxkit")
    level, loop_level, propagate = host.level, loop.level, ours.propagate
    host.setLevel(logging.CRITICAL + 1)
    loop.setLevel(logging.ERROR)
    ours.propagate = False
    ours.addHandler(notes)
    try:
        yield
    finally:
        host.setLevel(level)
        loop.setLevel(loop_level)
        ours.propagate = propagate
        ours.removeHandler(notes)
