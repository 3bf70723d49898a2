"""What a profile says of sessions, as arguments of `SessionMiddleware`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctxkit.profiles import find_profile
from ctxkit.sessions import Retention


def session_settings(name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for a profile.

    Args:
        name: The profile.
        overrides: Arguments that win; `retention` and `locks` as mappings are merged with the profile's.

    Raises:
        ConfigError: There is no such profile, or a setting that cannot work.
    """
    found = find_profile(name)
    retention, locks = found.section("retention"), found.section("locks")
    settings = {**found.section("session"), "retention": retention or None, "locks": locks or "own", **overrides}
    if isinstance(settings["retention"], Mapping):
        settings["retention"] = Retention(**{**retention, **settings["retention"]})
    if isinstance(settings["locks"], Mapping):
        settings["locks"] = {**locks, **settings["locks"]}
    return settings
