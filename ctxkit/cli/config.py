"""`ctxkit config`: checks a file of settings, shows what it comes to, and prints the schema of the format."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

if TYPE_CHECKING:
    from ctxkit.config_file import ConfigFile, LoadedConfig

HIDDEN: Final = "***"
"""Stands for a value that is not to be shown."""

config = typer.Typer(name="config", no_args_is_help=True, help="Check and show files of settings.")

File = Annotated[Path, typer.Argument(help="A YAML file, or JSON where its name ends in .json.")]


@config.command()
def check(file: File) -> None:
    """Check a file of settings, and say all that is wrong with it: FILE:LINE:COLUMN, what, and what to do.

    Placeholders such as {{env.API_KEY}} are looked up, and never printed. The exit code is 1 if something is wrong.
    """
    loaded = _loaded(file)
    each = [loaded.config(agent) for agent in loaded.agents or (None,)]
    for one in each:
        _settings(one)
    for note in dict.fromkeys(note for one in each for note in (*one.warnings, *_unfit_brain(one))):
        print(f"note: {note}")
    profiles = ", ".join(dict.fromkeys(one.profile for one in each))
    agents = ", ".join(loaded.agents) or "none by name"
    rules = ", ".join(dict.fromkeys(rule.id for one in each for rule in one.rules)) or "none"
    print(f"{file}: right. Profile: {profiles}; {each[0].hide(f'agents: {agents}; rules: {rules}')}.")


@config.command()
def show(
    file: File,
    *,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The agent's id; the only one where there is one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> None:
    """Show what a file comes to for an agent: each setting, and whether the file, its profile or ctxkit's default says it.

    What comes from the environment, and what its name calls a key, a token or a secret, is not shown.
    """
    from ctxkit.errors import ConfigError  # noqa: PLC0415 - `ctxkit --help` is to be quick

    try:
        loaded = _loaded(file).config(agent)
    except ConfigError as exc:
        _refuse([str(exc)])
    rows = _rows(loaded)
    if as_json:
        about = {"file": str(file), "agent": _agent(loaded), "profile": loaded.profile}
        settings = {name: {"value": value, "from": origin} for name, value, origin in rows}
        rules = [loaded.hide(rule.id) for rule in loaded.rules]
        print(json.dumps({**about, "settings": settings, "rules": rules, "summary_brain": _brain(loaded)}, default=str))
        return
    _print_table(loaded, rows)


@config.command()
def schema() -> None:
    """Print the JSON schema of the format, for editors."""
    from ctxkit.config_file.schema import config_schema  # noqa: PLC0415 - as above

    print(json.dumps(config_schema(), indent=2))


def _loaded(file: Path) -> "ConfigFile":
    """Return a file that was loaded; one that is wrong ends the command with all that is wrong."""
    from ctxkit.config_file import load_config_file  # noqa: PLC0415 - as above
    from ctxkit.errors import ConfigFileError  # noqa: PLC0415 - as above

    try:
        return load_config_file(file)
    except ConfigFileError as exc:
        _refuse(exc.problems)


def _settings(loaded: "LoadedConfig") -> Any:
    """Return the config that a file comes to, without its brain; what does not go together ends the command."""
    from ctxkit.errors import ConfigError  # noqa: PLC0415 - as above
    from ctxkit.host.context_config import ContextConfig  # noqa: PLC0415 - imports AgentScope, which takes seconds

    try:
        return ContextConfig.from_loaded(replace(loaded, summary_brain=None))
    except ConfigError as exc:
        _refuse([f"{loaded.path}: {exc}"])


def _unfit_brain(loaded: "LoadedConfig") -> list[str]:
    """Return why no model of AgentScope's can be made of the brain; a program may make one by `make_model`."""
    from ctxkit.errors import ConfigError  # noqa: PLC0415 - as above
    from ctxkit.host._brains import model_of  # noqa: PLC0415 - as above

    if loaded.summary_brain is None:
        return []
    try:
        model_of(loaded.summary_brain)
    except ConfigError as exc:
        return [f"{loaded.path}: {loaded.hide(str(exc))}"]
    return []


def _rows(loaded: "LoadedConfig") -> list[tuple[str, Any, str]]:
    """Return each setting with its value and where that comes from, secrets hidden."""
    from ctxkit.config_file.sections import HOST_FIELDS, SECTIONS, fields_of, home_of  # noqa: PLC0415 - as above
    from ctxkit.profiles import find_profile  # noqa: PLC0415 - as above

    made = _settings(loaded)
    profile = find_profile(loaded.profile)
    names = [f"{section}.{field}" for section, kind in SECTIONS.items() for field in fields_of(kind)]
    rows = []
    for name in (*HOST_FIELDS, *names):
        section, _, field = name.rpartition(".")
        given, standard = loaded.settings.get(name), profile.values.get(name)
        home = getattr(made, section, None) if section else made
        if home is not None:
            value = getattr(home, field)
        else:
            value = given.value if given else standard.value if standard else getattr(home_of(name)[0](), field)
        if given is not None:
            origin = given.origin
        else:
            origin = "default" if standard is None else f"profile {profile.name}: {standard.source}"
        rows.append((name, HIDDEN if given is not None and given.is_secret else _plain(value), origin))
    return rows


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def _agent(loaded: "LoadedConfig") -> str | None:
    """Return what may be shown of the agent's id."""
    return loaded.agent and loaded.hide(loaded.agent)


def _brain(loaded: "LoadedConfig") -> dict[str, Any] | None:
    """Return what may be shown of the brain: of its `config` the names alone."""
    brain = loaded.summary_brain
    if brain is None:
        return None
    names = ("provider", "model", "backend")
    shown = {name: None if (value := getattr(brain, name)) is None else loaded.hide(value) for name in names}
    return {**shown, "config": sorted(brain.config)}


def _print_table(loaded: "LoadedConfig", rows: list[tuple[str, Any, str]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table("setting", "value", "from")
    for name, value, origin in rows:
        table.add_row(Text(name), Text(_short(value)), Text(origin))
    for number, rule in enumerate(loaded.rules):
        what = f"{rule.on}: {type(rule.condition).__name__}, {type(rule.action).__name__}, cooldown {rule.cooldown:g} s"
        table.add_row(Text(f"rule {number + 1}"), Text(loaded.hide(rule.id)), Text(what))
    brain = _brain(loaded)
    table.add_row(
        Text("summary_brain"), Text("the agent's own model" if brain is None else json.dumps(brain)), Text("")
    )
    console = Console(highlight=False)
    console.print(Text(f"{loaded.path}: agent {_agent(loaded) or 'any'}, profile {loaded.profile}"))
    console.print(table)


_MOST_CHARS: Final = 60


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"


def _refuse(problems: Iterable[str]) -> NoReturn:
    """Print what is wrong, a line each, and leave with 1."""
    for problem in problems:
        print(problem)
    raise typer.Exit(1)
