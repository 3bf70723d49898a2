"""What a transcript has of each message: which versions of it are worth a new line, and what they come to together.

A message is written again where it has grown (AgentScope keeps a whole reply in one message). It is not written again
where it was shortened, cleared or split by a compression: the transcript is what happened, not what stays in the
context. So each block counts in its longest version, the later one of two that are as long.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from ctxkit.sessions.encoding import encode_piece

_Seen = dict[str, tuple[bytes, int]]
"""Hash and bytes of what was written last of each block; of the message without them under the empty key."""


class History:
    """What is written already of some messages."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._whole: dict[str, bytes] = {}

    def tells_more(self, message: Any, encoded: bytes) -> bool:
        """Return whether a message has more than is written of it, and count it as written from now on.

        Args:
            message: The message, plain JSON.
            encoded: What `encode_piece` gives for it.
        """
        name, whole = _name(message, encoded), _hash(encoded)
        if self._whole.get(name) == whole:
            return False
        self._whole[name] = whole
        seen = self._seen.setdefault(name, {})
        more = False
        for key, part in _parts(message):
            piece = encode_piece(part)
            digest, size = _hash(piece), len(piece)
            old = seen.get(key)
            if old is None or (digest != old[0] and (size >= old[1] or not key)):
                seen[key] = (digest, size)
                more = True
        return more

    def forget_others(self, messages: Iterable[tuple[Any, bytes]]) -> None:
        """Forget all but these messages: what has left the context does not change any more."""
        names = {_name(message, encoded) for message, encoded in messages}
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        self._whole = {name: whole for name, whole in self._whole.items() if name in names}


def merge_versions(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two versions of a message come to: the newer one, with the blocks that it lacks or has cut short."""
    before, after = dict(_blocks(older)), dict(_blocks(newer))
    if not before or not isinstance(newer.get("content"), list):
        return dict(newer)
    longest = {**before, **after}
    for key in before.keys() & after.keys():
        if len(encode_piece(before[key])) > len(encode_piece(after[key])):
            longest[key] = before[key]
    order = after if before.keys() <= after.keys() else longest
    return {**newer, "content": [longest[key] for key in order]}


def _name(message: Any, encoded: bytes) -> str:
    if isinstance(message, Mapping) and isinstance(message.get("id"), str):
        return f"id {message['id']}"
    return f"hash {_hash(encoded).hex()}"


def _parts(message: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(message, Mapping):
        return [("", message)]
    blocks = _blocks(message)
    head = {key: value for key, value in message.items() if key != "content" or not blocks}
    return [("", head), *blocks]


def _blocks(message: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the blocks of a message by type and id; one that has none by its place."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    found = []
    for at, block in enumerate(content):
        has_id = isinstance(block, Mapping) and isinstance(block.get("id"), str)
        found.append((f"{block.get('type')} {block['id']}" if has_id else f"at {at}", block))
    return found


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
