"""Checks of the sections' fields: each says in a `ConfigError` which field has which value and what to do about it."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from math import isfinite
from typing import NoReturn

from ctxkit.errors import ConfigError


def refuse(section: object, name: str, value: object, rule: str) -> NoReturn:
    """Refuse a value.

    Raises:
        ConfigError: Always; it names the field, the value and the remedy.
    """
    msg = f"{type(section).__name__}.{name} is {value!r}: {rule}."
    raise ConfigError(msg)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names the nearest known name, or else all that there are; it follows a statement."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    return f": did you mean {near[0]}?" if near else f"; known are {', '.join(names)}."


def is_number(value: object) -> bool:
    """Whether a value is a finite number and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def ratio(section: object, name: str, *, above: float = 0.0, to: float = 1.0) -> None:
    """Refuse what is no finite number above one bound and at most the other."""
    value = getattr(section, name)
    if not is_number(value) or not above < value <= to:
        refuse(section, name, value, f"give a number above {above:g} and at most {to:g}")


def at_least(section: object, name: str, least: float) -> None:
    """Refuse what is no finite number of at least `least`."""
    value = getattr(section, name)
    if not is_number(value) or value < least:
        refuse(section, name, value, f"give a finite number of at least {least:g}")


def whole(section: object, name: str, *, least: int) -> None:
    """Refuse what is no whole number of at least `least`."""
    value = getattr(section, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        refuse(section, name, value, f"give a whole number of at least {least}")


def switch(section: object, name: str) -> None:
    """Refuse what is neither True nor False."""
    value = getattr(section, name)
    if not isinstance(value, bool):
        refuse(section, name, value, "give True or False")


def tool_names(section: object, name: str) -> None:
    """Refuse what is no collection of names, and make a frozen set of what is; one name alone would give its letters."""
    value = getattr(section, name)
    if isinstance(value, str) or not isinstance(value, Collection) or any(not isinstance(tool, str) for tool in value):
        refuse(section, name, value, "give a set of tool names, for example {'Read'}")
    object.__setattr__(section, name, frozenset(value))


def one_of(section: object, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse what is none of the allowed words."""
    value = getattr(section, name)
    if value not in allowed:
        refuse(section, name, value, "give one of " + ", ".join(repr(a) for a in allowed))
