"""`ctxkit profiles`: the settings of the systems side by side, and where each of them comes from."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from ctxkit.errors import ConfigError
from ctxkit.profiles import PROFILES, Profile, Value, find_profile

_SAME: Final = "="
"""Stands where a profile keeps ctxkit's default."""
_SHOWN_CHARS: Final = 40
"""Longest text of a value in a table."""


def profiles(
    names: Annotated[
        list[str] | None, typer.Argument(help="Profiles to explain: each value, and where it is from.")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of the documentation.")] = False,
) -> None:
    """Show the profiles side by side, or each value of some of them with the words of the document that it is from.

    A profile is used by `ContextConfig.profile(NAME)` and `SessionMiddleware.profile(NAME, store)`.
    """
    try:
        chosen = [find_profile(name) for name in names or ()]
    except ConfigError as exc:
        raise typer.BadParameter(str(exc), param_hint="NAMES") from exc
    if as_json:
        print(json.dumps({each.name: to_json(each) for each in chosen or PROFILES.values()}, ensure_ascii=False))
    elif as_markdown:
        print(markdown(), end="")
    else:
        _show(chosen)


def to_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain JSON."""
    parts = {"values": profile.values, "constants": profile.constants}
    return {
        "about": profile.about,
        "document": profile.document,
        **{
            part: {key: {"value": each.value, "source": each.source, "why": each.why} for key, each in values.items()}
            for part, values in parts.items()
        },
    }


def side_by_side() -> list[tuple[str, ...]]:
    """Return rows of setting, ctxkit's default, and the value of each other profile, as people read them."""
    defaults = _defaults()
    others = [profile for profile in PROFILES.values() if profile.values]
    keys = sorted({key for profile in others for key in profile.values}, key=lambda key: ("." in key, key))
    return [(key, in_words(defaults[key]), *(_cell(profile, key) for profile in others)) for key in keys]


def markdown() -> str:
    """Return the tables of the reference page, which a test compares with it."""
    others = [profile for profile in PROFILES.values() if profile.values]
    lines = ["## Side by side", ""]
    lines += _table(("setting", "default", *(each.name for each in others)), _coded(side_by_side()))
    for profile in others:
        lines += ["", f"## {profile.name}", "", f"{profile.about}", f"From: {profile.document}.", ""]
        lines += _table(("setting", "value", "from", "why"), [_row(*item) for item in profile.values.items()])
        lines += ["", "What the document says of it, and ctxkit has in every profile:", ""]
        lines += _table(("what", "value", "from"), [_row(*item)[:3] for item in profile.constants.items()])
    return "\n".join(lines) + "\n"


def in_words(value: object) -> str:
    """Return a value as a person writes it, short."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return f"fields: {', '.join(value.get('properties', value))}"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


def _show(chosen: list[Profile]) -> None:
    """Print tables: all profiles side by side, or one of each that was asked for."""
    from rich.console import Console  # noqa: PLC0415 - `ctxkit --help` is to be quick
    from rich.table import Table  # noqa: PLC0415 - as above

    console = Console(highlight=False)
    if not chosen:
        table = Table("setting", *PROFILES, title=f"Profiles ({_SAME} is ctxkit's default)", title_justify="left")
        for row in side_by_side():
            table.add_row(*row)
        console.print(table)
    for profile in chosen:
        table = Table("setting", "value", "from", title=f"{profile.name}: {profile.about}", title_justify="left")
        for key, each in [*profile.values.items(), *profile.constants.items()]:
            table.add_row(key, in_words(each.value), f"{each.source}{f' ({each.why})' if each.why else ''}")
        console.print(table)


def _defaults() -> dict[str, object]:
    """Return ctxkit's default of each setting that some profile has."""
    from inspect import signature  # noqa: PLC0415 - as below

    from ctxkit.host.context_config import ContextConfig  # noqa: PLC0415 - imports AgentScope, which takes seconds
    from ctxkit.host.session import SessionMiddleware  # noqa: PLC0415 - as above
    from ctxkit.sessions import Retention, SessionLocks  # noqa: PLC0415 - as above

    config, retention = ContextConfig(), Retention()
    arguments = {"session": signature(SessionMiddleware).parameters, "locks": signature(SessionLocks).parameters}

    def default(key: str) -> object:
        section, _, field = key.rpartition(".")
        if section in arguments:
            return arguments[section][field].default
        owner = retention if section == "retention" else getattr(config, section) if section else config
        return getattr(owner, field)

    return {key: default(key) for profile in PROFILES.values() for key in profile.values}


def _cell(profile: Profile, key: str) -> str:
    each = profile.values.get(key)
    return _SAME if each is None else in_words(each.value)


def _coded(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(cell if cell == _SAME else f"`{cell}`" for cell in row) for row in rows]


def _row(key: str, each: Value) -> tuple[str, ...]:
    """Return a row of a table in Markdown."""
    return (f"`{key}`" if "." in key or "_" in key else key, f"`{in_words(each.value)}`", _from(each.source), each.why)


def _from(source: str) -> str:
    """Return a source for a cell of a table in Markdown."""
    place, _, said = source.partition(" ")
    code = said.replace("`", "").replace("|", "/").replace("**", "")
    return f"line {place.rpartition(':')[2]}: `{code}`"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
