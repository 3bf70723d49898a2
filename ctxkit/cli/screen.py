"""What a person sees of a race: a gauge while it runs where there is a terminal, plain lines where not, and a table."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ctxkit import telemetry
from ctxkit.cli.report import TRIGGER_RATIO, Asked, Began, Figures, Moment, Noted, Noticed, Race, Stepped, Stored

NAMES: Final = {"stock": "stock AgentScope", "ctxkit": "with ctxkit"}
"""How the contestants are called."""

_GAUGE_CHARS: Final = 48
_SHOWN_CHARS: Final = 110
"""Longest text of a user that is shown."""


class Screen:
    """Shows a race on a console; as a context manager it has the live part of a terminal.

    Args:
        console: Where to; nothing is shown on a quiet one.
        window_tokens: The window that the gauge measures.
    """

    def __init__(self, console: Console, *, window_tokens: int) -> None:
        self._console = console
        self._window = window_tokens
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        """Start the live part."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()

    def opening(self) -> None:
        """Say what is going to happen; AgentScope is imported after it."""
        self._console.print(f"An agent surveys Python's standard library in a window of {self._window:,} tokens.")
        self._console.print("Its model follows a script; tools, results and token counts are real.", style="dim")
        if self._live is not None:
            self._live.update(Text("importing AgentScope ..."))

    def show(self, moment: Moment) -> None:
        """Show a moment of the race."""
        match moment:
            case Began(contestant=contestant):
                self._line(f"\n{NAMES[contestant]}", style="bold")
            case Asked(text=text):
                self._line(f"  user: {_cut(text)}", style="cyan")
            case Stepped():
                self._step(moment)
            case Noticed(name=name, value=value):
                if words := _in_words(name, value):
                    self._line(f"     {words[0]}", style=words[1])
            case Noted(text=text):
                self._line(f"     {text}", style="yellow")
            case Figures():
                self._ended(moment)

    def closing(self, race: Race, *, kept_in: Path | None) -> None:
        """Show how the race ended."""
        self._console.print()
        self._console.print(_table(race))
        self._console.print(f"Question: {race.question}")
        self._console.print(f"Right:    {race.expected}")
        for figures in (race.stock, race.ctxkit):
            said = figures.answer or "(not alive to be asked)"
            self._console.print(f"{figures.contestant + ':':<9} {said}", style=_good(good=figures.is_answer_right))
        if kept_in is not None:
            self._console.print(f"Kept in {kept_in}", soft_wrap=True)

    def _step(self, step: Stepped) -> None:
        line = f"{step.number:>3}/{step.total}  {step.what}"
        if self._live is None:
            self._line(f"  {line} ({step.tokens:,} tokens)")
        else:
            self._live.update(Group(Text(f"  {line}"), self._gauge(step.tokens)))

    def _gauge(self, tokens: int) -> Text:
        """Return the window as a bar with a mark where the trigger is."""
        full, empty, mark = "#-|" if self._console.options.ascii_only else "█░│"
        used = min(_GAUGE_CHARS, round(tokens / self._window * _GAUGE_CHARS))
        trigger = round(TRIGGER_RATIO * _GAUGE_CHARS)
        bar = full * used + empty * (_GAUGE_CHARS - used)
        style = "red" if used > trigger else "green"
        return Text.assemble(
            "  ",
            (bar[:trigger], style),
            (mark, "bold"),
            (bar[trigger:], style),
            f" {tokens:>7,} of {self._window:,} tokens",
        )

    def _ended(self, figures: Figures) -> None:
        took = f"{figures.seconds:.1f} s"
        if figures.survived:
            self._line(f"  came to the end after {figures.steps} steps ({took})", style="bold green")
        else:
            why = figures.died_of or "it stopped early"
            self._line(f"  died after step {figures.steps} of {figures.steps_total} ({took}): {why}", style="bold red")

    def _line(self, text: str, *, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=self._live is None)


def _in_words(name: str, value: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return an event of ctxkit's in words, and their style; None where it says nothing to a person."""
    words: tuple[str, str] | None = None
    match name:
        case telemetry.STARTED:
            words = f"compressing {value['tokens_before']:,} tokens ...", "yellow"
        case telemetry.DONE:
            change = f"{value['tokens_before']:,} to {value['tokens_after']:,} tokens"
            words = f"compressed {change} in {value['seconds']:.2f} s, summary: {value['summary']}", "green"
        case telemetry.FAILED:
            words = f"not compressed: {'; '.join(value.get('problems', ()))}", "red"
        case telemetry.SHORTENED:
            what = f"{value.get('tool') or value.get('role')}, {value['tokens_before']:,} tokens"
            words = f"{what}: stored, {value['tokens_after']:,} stay in the context", "dim"
        case telemetry.STORE_FAILED:
            words = f"not stored: {value['what']}: {value['problem']}", "red"
        case telemetry.OVERFLOW:
            words = f"the provider takes {value['limit_tokens']:,} tokens at most; sent again smaller", "yellow"
    return words


def _table(race: Race) -> Table:
    table = Table(title=f"The same work in a window of {race.window_tokens:,} tokens", title_justify="left")
    table.add_column("", no_wrap=True)
    both = (race.stock, race.ctxkit)
    for figures in both:
        table.add_column(NAMES[figures.contestant], justify="right", overflow="fold")
    rows: dict[str, Callable[[Figures], object]] = {
        "came to the end": lambda f: _yes(good=f.survived),
        "steps": lambda f: f"{f.steps} of {f.steps_total}",
        "died of": lambda f: f.died_of or "-",
        "model calls (refused)": lambda f: f"{f.model_calls} ({f.refused_calls})",
        "input tokens": lambda f: f"{f.input_tokens:,}",
        "  a prompt cache serves": lambda f: f"{f.cached_tokens:,}",
        "compressions": lambda f: f.compressions,
        "longest request": lambda f: f"{f.longest_request_tokens:,}",
        "results shortened": lambda f: f.results_shortened,
        "user's rule in context": lambda f: _yes(good=f.is_constraint_live),
        "fact in context when asked": lambda f: {None: "-", True: "yes", False: "no"}[f.is_fact_in_context],
        "question answered right": lambda f: _yes(good=f.is_answer_right),
    }
    for name, cell in rows.items():
        table.add_row(name, *(_cell(cell(figures)) for figures in both))
    table.add_section()
    for stock, ours in zip(race.stock.stored, race.ctxkit.stored, strict=True):
        table.add_row(stock.where, _size(stock), _size(ours))
    return table


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text(str(value))


def _yes(*, good: bool) -> Text:
    return Text("yes" if good else "no", style=_good(good=good))


def _good(*, good: bool) -> str:
    return "green" if good else "red"


def _size(stored: Stored) -> str:
    return f"{stored.files} file{'s' * (stored.files != 1)}, {stored.size_bytes / 1000:,.0f} kB"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 4]} ..."
