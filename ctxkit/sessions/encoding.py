"""The JSON text of a saved state: one message a line, so that it is written and read in pieces.

grep finds a message on a line of its own, and a thread that encodes or decodes a state of many megabytes lets the
event loop run between two messages. Any JSON object is read, laid out in this way or not.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ctxkit.errors import StoreWriteError

_CONTEXT: Final = "context"
_OPENING: Final = b'"context":['


def encode_state(state: Mapping[str, Any], *, messages: Sequence[bytes] | None = None) -> bytes:
    """Return a state as JSON, UTF-8; blocks for as long as that takes, so call it in a thread.

    A lone surrogate, which is no character and which no strict JSON parser takes, becomes `?`.

    Args:
        state: The state.
        messages: What `encode_piece` gave for each message of its context, if that is known already.

    Raises:
        ValueError: It is no plain JSON; the message says why.
    """
    return b"".join(_pieces(state, messages))


def decode_state(data: bytes) -> dict[str, Any]:
    """Return the state in a JSON text; blocks for as long as that takes, so call it in a thread.

    Raises:
        ValueError: It is no JSON object.
    """
    try:
        found = _decode_by_line(data)
        if found is None:
            found = json.loads(data)
    except (RecursionError, UnicodeDecodeError) as exc:
        msg = f"it cannot be parsed: {exc}"
        raise ValueError(msg) from exc
    if not isinstance(found, dict):
        msg = f"it is a JSON {type(found).__name__}, not an object"
        raise ValueError(msg)  # noqa: TRY004 - what is wrong is the data, not its use
    return found


def no_json_error(session_id: str, problem: ValueError) -> StoreWriteError:
    """Return the error for a state that `encode_state` refused."""
    return StoreWriteError(f"The state of session {session_id[:200]!r} cannot be saved: {problem}. Give plain JSON.")


def encode_piece(value: object) -> bytes:
    """Return one value as JSON on one line, UTF-8.

    Raises:
        ValueError: It is no plain JSON; the message says why.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
    return text.encode("utf-8", "replace")


def messages_of(state: Mapping[str, Any]) -> Sequence[Any]:
    """Return the messages of a state's context; none where it has no list of them."""
    context = state.get(_CONTEXT)
    return context if isinstance(context, list | tuple) else ()


def _pieces(state: Mapping[str, Any], messages: Sequence[bytes] | None) -> Iterator[bytes]:
    between = b"{"
    for key, value in state.items():
        if key == _CONTEXT and messages_of(state):
            yield between + _OPENING
            for at, message in enumerate(messages or map(encode_piece, value)):
                yield (b",\n" if at else b"\n") + message
            yield b"\n]"
        else:
            yield between + encode_piece(str(key)) + b":" + encode_piece(value)
        between = b","
    yield b"}" if between == b"," else b"{}"


def _decode_by_line(data: bytes) -> dict[str, Any] | None:
    """Return the state where it is laid out as `encode_state` does it, else None."""
    lines = data.split(b"\n")
    if len(lines) < 3 or not lines[0].endswith(_OPENING) or not lines[-1].startswith(b"]"):  # noqa: PLR2004 - head, tail and a message
        return None
    if lines[-2].endswith(b",") or not all(line.endswith(b",") for line in lines[1:-2]):
        return None  # lines were lost or moved: it is no JSON as a whole
    try:
        state = json.loads(lines[0] + lines[-1])
        messages = [json.loads(line.removesuffix(b",")) for line in lines[1:-1]]
    except ValueError:
        return None
    if not isinstance(state, dict) or state.get(_CONTEXT) != []:
        return None  # some other object has a key of that name
    return {**state, _CONTEXT: messages}
