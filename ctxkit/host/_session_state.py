"""An agent's state as AgentScope's own JSON, and back: in pieces, for a state may have megabytes and a loop others."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from agentscope.message import Msg
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_BUSY_S: Final = 0.004
"""Seconds of work after which others get their turn."""
_OWN: Final = frozenset({"session_id", "context", "permission_context", "middle_context"})
"""Fields of a state that are not simply replaced when another one is applied."""


class Pauses:
    """Lets others run whenever some milliseconds of work have been done."""

    def __init__(self) -> None:
        self._since = perf_counter()

    async def maybe(self) -> None:
        """Give others their turn if it is time."""
        if perf_counter() - self._since > _BUSY_S:
            await asyncio.sleep(0)
            self._since = perf_counter()


async def dump_state(state: AgentState) -> dict[str, Any]:
    """Return a state as `AgentState.model_dump(mode="json")` would.

    Which messages and blocks there are is settled before the first pause; a message that comes meanwhile is left out.

    Args:
        state: The live state; nothing of it is changed.

    Raises:
        ValueError: Something in it is no JSON, such as what a middleware has put into `middle_context`.
    """
    messages = [(message, list(message.content)) for message in state.context]
    cached = list(state.tool_context.read_file_cache)
    dumped = state.model_dump(mode="json", exclude={"context": True, "tool_context": {"read_file_cache"}})
    pauses = Pauses()

    async def plain(model: BaseModel, **how: Any) -> Any:
        piece = model.model_dump(mode="json", **how)
        await pauses.maybe()
        return piece

    context = []
    for message, content in messages:
        about = await plain(message, exclude={"content"})
        context.append({**about, "content": [await plain(block) for block in content]})
    dumped["context"] = context
    dumped["tool_context"]["read_file_cache"] = [await plain(entry) for entry in cached]
    return dumped


async def load_state(saved: Mapping[str, Any]) -> tuple[AgentState, list[Any]]:
    """Return the state that `dump_state` or AgentScope itself wrote, and the entries of its context that are no messages.

    Raises:
        ValueError: It is no state, apart from such entries.
    """
    context = saved.get("context", [])
    if not isinstance(context, list):
        msg = f"the context of a saved state is {type(context).__name__} instead of a list: repair the session"
        raise ValueError(msg)  # noqa: TRY004 - what is wrong is a file, no argument
    state = AgentState.model_validate({**saved, "context": []})
    pauses = Pauses()
    damaged = []
    for entry in context:
        try:
            state.context.append(Msg.model_validate(entry))
        except ValidationError:
            damaged.append(entry)
        await pauses.maybe()
    return state, damaged


def apply_state(live: AgentState, loaded: AgentState, *, added: Sequence[Msg] = (), is_start: bool = False) -> None:
    """Make a live state what another one says, in one step.

    The live object and the objects in it stay the same ones, for the host and its tools hold them. Its session id stays,
    and so do the slots of middlewares that the other state knows nothing of.

    Args:
        live: The state of an agent.
        loaded: What it becomes; its parts are taken over, so use it no more.
        added: Messages behind the loaded ones.
        is_start: Whether the live permissions are what the application has just set, not those of the same session.
    """
    for name in type(live).model_fields:
        if name not in _OWN:
            _copy(live, loaded, name)
    live.context = [*loaded.context, *added]
    live.middle_context.update(loaded.middle_context)
    _merge_permissions(live.permission_context, loaded.permission_context, is_start=is_start)


def _copy(live: BaseModel, loaded: BaseModel, name: str) -> None:
    """Take a field over; a model in it is filled, not replaced."""
    old, new = getattr(live, name), getattr(loaded, name)
    if isinstance(old, BaseModel) and type(old) is type(new):
        for inner in type(old).model_fields:
            setattr(old, inner, getattr(new, inner))
    else:
        setattr(live, name, new)


def _merge_permissions(live: PermissionContext, loaded: PermissionContext, *, is_start: bool) -> None:
    """Add saved permissions to the live ones: no rule of the application is lost by a restart, nor one of a person."""
    if not is_start or live.mode == PermissionMode.DEFAULT:
        live.mode = loaded.mode
    for path, directory in loaded.working_directories.items():
        live.working_directories.setdefault(path, directory)
    for kind in ("allow_rules", "deny_rules", "ask_rules"):
        rules: dict[str, list[Any]] = getattr(live, kind)
        for tool, saved in getattr(loaded, kind).items():
            there = rules.setdefault(tool, [])
            there.extend(rule for rule in saved if rule not in there)


def ids_of(messages: Iterable[Msg]) -> frozenset[str]:
    """Return the ids of messages."""
    return frozenset(message.id for message in messages)
