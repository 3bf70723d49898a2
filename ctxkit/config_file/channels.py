"""OpenClaw's `channels`: of each channel its history limits alone, for the rest is an application's, keys among it."""

from __future__ import annotations

from typing import Any, Final

from ctxkit.config_file.nodes import Node
from ctxkit.config_file.plain import plain
from ctxkit.config_file.report import Report

CHANNELS: Final = "channels"
_USERS: Final = "dms"
_LIMIT: Final = "historyLimit"
_LIMITS: Final = (_LIMIT, "dmHistoryLimit")


def read_channels(node: Node, path: str, report: Report) -> dict[str, Any]:
    """Return the limits of each channel, as OpenClaw nests them; what is no number of turns is told.

    Args:
        node: The mapping of channels.
        path: How the place is called in messages.
        report: Takes what is wrong.
    """
    channels: dict[str, Any] = {}
    for name, channel in _entries(node, path, report).items():
        where = f"{path}.{name}"
        inside = _entries(channel, where, report)
        limits: dict[str, Any] = _limits(inside, _LIMITS, where, report)
        if _USERS in inside:
            users = _entries(inside[_USERS], f"{where}.{_USERS}", report)
            limits[_USERS] = {
                user: _limits(
                    _entries(each, f"{where}.{_USERS}.{user}", report), (_LIMIT,), f"{where}.{_USERS}.{user}", report
                )
                for user, each in users.items()
            }
        channels[name] = limits
    return channels


def _entries(node: Node, path: str, report: Report) -> dict[str, Node]:
    """Return the entries of a mapping; nothing where there is nothing, and where there is something else, which is told."""
    if node.entries is not None:
        return {key: entry.node for key, entry in node.entries.items()}
    if node.items is not None or node.value is not None:
        report.tell(node.place, f"{path} is {node.kind}: give a mapping.")
    return {}


def _limits(inside: dict[str, Node], names: tuple[str, ...], path: str, report: Report) -> dict[str, int]:
    """Return the limits that a mapping has; `null` sets none."""
    limits: dict[str, int] = {}
    for name in names:
        value = plain(inside[name], report) if name in inside else None
        if value is None or inside[name].place in report.missing:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            limits[name] = value
        else:
            report.tell(inside[name].place, f"{path}.{name} is {value!r}: give a number of user turns, at least 0.")
    return limits
