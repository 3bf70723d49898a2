"""The profiles that there are, by name."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from ctxkit.errors import ConfigError
from ctxkit.profiles._base import Profile
from ctxkit.profiles.agentscope import AGENTSCOPE
from ctxkit.profiles.cowagent import COWAGENT
from ctxkit.profiles.default import DEFAULT
from ctxkit.profiles.digitorn import DIGITORN
from ctxkit.profiles.openclaw import OPENCLAW

PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {each.name: each for each in (DEFAULT, AGENTSCOPE, COWAGENT, OPENCLAW, DIGITORN)}
)
"""All profiles by name, ctxkit's own defaults first."""


def find_profile(name: str) -> Profile:
    """Return a profile by its name.

    Raises:
        ConfigError: There is none of that name; the message names those that there are, and the nearest.
    """
    if name in PROFILES:
        return PROFILES[name]
    near = get_close_matches(str(name), PROFILES, n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    msg = f"profile is {name!r}: give one of {', '.join(map(repr, PROFILES))}{guess}"
    raise ConfigError(msg)
