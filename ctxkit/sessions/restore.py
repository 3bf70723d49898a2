"""The restore rule `texts`: of the newest turns, what the user said and what the agent answered in the end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctxkit.sessions.encoding import messages_of

LEAST_TURNS: Final = 3
TURNS_DIVISOR: Final = 6
"""`max(3, max_turns / 6)` turns are restored: CowAgent's rule."""

_TOOLS: Final = frozenset({"tool_call", "tool_result"})


@dataclass(frozen=True, kw_only=True)
class KeptTurns:
    """What the rule leaves of a state."""

    state: Mapping[str, Any]
    """The state with those turns as its context; a new object, of which all but the changed messages is shared."""
    turns: int
    """Turns that were kept."""
    dropped: Sequence[Mapping[str, Any]]
    """The messages that were left out, in whole or in part, each as it was: store them before the state is used."""
    dropped_summary: Any = ""
    """The summary that was left out."""


def newest_turns(state: Mapping[str, Any], *, max_turns: int = 20, summary: Any = "") -> KeptTurns:
    """Return a state with the newest `max(3, max_turns // 6)` turns, each cut down to what was said.

    A turn goes from one user message to the next one behind an answer. Of the user's messages the text blocks stay, and
    of the answer the text behind its last tool result, or its last text where none follows. Tool calls and results,
    thinking, hints and media go, and so do the summary, what stands before the first turn, and the cache of files that
    were read, for their content is no longer in the context. Permissions, tasks and the slots of middlewares stay.

    Args:
        state: An `AgentState` as plain JSON; it is not changed.
        max_turns: Turns that the application allows a context, at least 1.
        summary: A summary of what goes, where there is one that is stored and valid; else the state has none.
    """
    turns = list(_turns(messages_of(state)))
    count = max(LEAST_TURNS, max_turns // TURNS_DIVISOR)
    kept = [message for turn in turns[-count:] for message in _said(turn)]
    untouched = {id(message) for message in kept}
    dropped = [message for message in messages_of(state) if id(message) not in untouched]
    new: dict[str, Any] = {**state, "context": kept, "summary": summary}
    tools = state.get("tool_context")
    if isinstance(tools, Mapping):
        new["tool_context"] = {**tools, "read_file_cache": []}
    old = state.get("summary", "")
    return KeptTurns(
        state=new, turns=min(count, len(turns)), dropped=dropped, dropped_summary=old if old != summary else ""
    )


def _turns(messages: Sequence[Any]) -> Iterator[list[Mapping[str, Any]]]:
    turn: list[Mapping[str, Any]] = []
    is_answered = False
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        if message.get("role") == "user":
            if turn and is_answered:
                yield turn
                turn = []
            is_answered = False
            turn.append(message)
        elif turn:
            is_answered = True
            turn.append(message)
    if turn:
        yield turn


def _said(turn: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in turn:
        if message.get("role") == "user" and (texts := _texts(message)):
            yield _with(message, texts)
    for message in reversed(turn):
        if message.get("role") == "assistant" and (answer := _answer(message)):
            yield _with(message, answer)
            return


def _texts(message: Mapping[str, Any]) -> list[Any]:
    return [block for block in _content(message) if _kind(block) == "text" and block.get("text")]


def _answer(message: Mapping[str, Any]) -> list[Any]:
    content = _content(message)
    last_tool = max((at for at, block in enumerate(content) if _kind(block) in _TOOLS), default=-1)
    behind = _texts({"content": content[last_tool + 1 :]})
    return behind or _texts(message)[-1:]


def _content(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _with(message: Mapping[str, Any], content: list[Any]) -> Mapping[str, Any]:
    return message if content == _content(message) else {**message, "content": content}
