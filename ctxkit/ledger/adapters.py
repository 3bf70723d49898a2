"""What a call did, for tools that ctxkit does not know: an adapter says it in place of what the names suggest."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

from ctxkit.errors import ConfigError
from ctxkit.ledger.shell import Operation
from ctxkit.ledger.suites import TestState

if TYPE_CHECKING:
    from ctxkit.port import Block

_JSON_CHARS: Final = 1024 * 1024
_FAILED: Final = frozenset({"error", "denied", "interrupted"})

JobState = Literal["waiting", "running", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What one tool call did, its result known."""

    files: tuple[tuple[str, Operation], ...] = ()
    """Path and operation, in order."""
    command: str | None = None
    """The command line, where the tool ran one."""
    exit_code: int | None = None
    problem: str | None = None
    """Why it failed, one line; `None` where it went well."""
    work: str = ""
    """What it was for: an error is resolved when a later call of the same tool for the same work goes well."""
    tests: Mapping[str, TestState] = field(default_factory=dict)
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    """Ids of jobs or tasks that it began, moved on or ended."""


@runtime_checkable
class ToolAdapter(Protocol):
    """Says what the calls of a tool did."""

    def deed_of(self, name: str, arguments: Mapping[str, Any], result: str, state: str) -> Deed | None:
        """Return what a call did; `None` where its name and arguments say enough.

        It runs in the event loop, whenever the facts of a call are asked for, and must say the same of the same call.

        Args:
            name: The tool's name.
            arguments: The call's arguments; empty where they are no JSON object.
            result: The text of the result, images left out.
            state: How it ended: `success`, `error`, `interrupted`, `denied` or `running`.
        """
        ...


_ADAPTERS: Final[dict[str, ToolAdapter]] = {}


def register_tool_adapter(adapter: ToolAdapter, *, tools: Iterable[str]) -> None:
    """Have an adapter say what calls of some tools did, in this process, from now on.

    Args:
        adapter: Yours.
        tools: Names of tools, or patterns of them such as `mcp__github__*`; the last one registered for a name wins.

    Raises:
        ConfigError: It has no method `deed_of`, or no tool is named.
    """
    named = [tools] if isinstance(tools, str) else list(tools)
    if not isinstance(adapter, ToolAdapter):
        message = f"the adapter must have a method deed_of(name, arguments, result, state), got {adapter!r}"
        raise ConfigError(message)
    if not named or not all(isinstance(name, str) and name for name in named):
        message = f"tools must name at least one tool, got {named!r}"
        raise ConfigError(message)
    for name in named:
        _ADAPTERS.pop(name, None)
        _ADAPTERS[name] = adapter
    adapter_of.cache_clear()


def unregister_tool_adapter(*, tools: Iterable[str]) -> None:
    """Take back what was registered for these names or patterns; others are left as they are."""
    for name in [tools] if isinstance(tools, str) else tools:
        _ADAPTERS.pop(name, None)
    adapter_of.cache_clear()


@lru_cache(maxsize=512)
def adapter_of(name: str) -> ToolAdapter | None:
    """Return the adapter that was registered last for a tool; one for its very name goes before patterns."""
    if not _ADAPTERS:
        return None
    return _ADAPTERS.get(name) or next((a for p, a in reversed(_ADAPTERS.items()) if fnmatchcase(name, p)), None)


def adapted(call: "Block", result: "Block", text: str) -> Deed | None:
    """Return what the adapter of a tool says of a call; `None` where it has none, or leaves it to the names.

    Args:
        call: The call.
        result: Its result.
        text: Texts of the result.
    """
    if call.type != "tool_call" or result.type != "tool_result":
        return None
    adapter = adapter_of(call.name)
    if adapter is None:
        return None
    return adapter.deed_of(call.name, parsed(call.input) or {}, text, state_of(result))


def state_of(result: "Block") -> str:
    """Return how a result ended, as a plain text: the host's states are members of an enumeration."""
    state = getattr(result, "state", None)
    return str(getattr(state, "value", state))


def is_failed(result: "Block") -> bool:
    """Whether the host says that a call failed."""
    return state_of(result) in _FAILED


def parsed(arguments: str) -> dict[str, Any] | None:
    """Return a call's arguments; `None` where they are no JSON object, or so large that parsing holds the event loop."""
    if len(arguments) > _JSON_CHARS:
        return None
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
