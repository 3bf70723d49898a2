"""What the parts of `OffloaderSuite` have in common: how an offloader is opened, called and read back."""

import asyncio
import os
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from agentscope.message import Base64Source, DataBlock, Msg, TextBlock, ToolResultBlock

from ctxkit.errors import StoreError
from ctxkit.offload import Store
from ctxkit.testing.suites._base import Suite

SESSION: Final = "session-1"
_TIME: Final = "2026-01-01T00:00:00"
_REFERENCE_CHARS: Final = 1000
"""A longer reference is not put in a prompt: it stands there again and again."""


class OffloaderPart(Suite[Any]):
    """The base of the parts of `OffloaderSuite`."""

    # Each process imports AgentScope, which takes seconds.
    kills = 3
    writers = 3
    factory = "open_offloader"

    def open_offloader(self, place: Path) -> Any | Awaitable[Any]:
        """Return an offloader that keeps its data in a place; may be `async def`.

        Called several times with one place: what comes back are several clients of the same data. Unless the suite says
        `durable = False`, it is called in processes of its own too, so it may use the place, the environment and the
        class, but no fixtures.

        Args:
            place: A directory that is there and empty at first. A back end that is no directory takes its text as the
                name of a bucket, a schema or a prefix of its own.
        """
        return super()._open(place)

    async def close_offloader(self, offloader: Any) -> None:
        """Close an offloader; by default its `aclose` is awaited, if it has one."""
        await super()._close(offloader)

    async def read(self, offloader: Any, reference: str) -> str | bytes | None:
        """Return what a reference names; `None` where nothing is there.

        By default it reads from the offloader's `store`, if that is a `Store`, or the file of that path. Override it
        for everything else.
        """
        store = getattr(offloader, "store", None)
        if isinstance(store, Store):
            try:
                return await store.get(reference)
            except StoreError:
                return None
        return await asyncio.to_thread(_file, reference)

    def _open(self, place: Path) -> Any | Awaitable[Any]:
        return self.open_offloader(place)

    async def _close(self, opened: Any) -> None:
        await self.close_offloader(opened)

    async def text(self, offloader: Any, *references: str) -> str:
        """Return all that these references name, each once, as text.

        Raises:
            AssertionError: One names nothing.
        """
        texts = []
        for reference in dict.fromkeys(references):
            found = await self.read(offloader, reference)
            assert found is not None, f"nothing can be read under {reference!r}: define read(), if it is not a path"
            texts.append(found if isinstance(found, str) else found.decode("utf-8", "backslashreplace"))
        return "\n".join(texts)


def said(word: str, *, session: str = SESSION, text: str = "") -> Msg:
    """Return a message that has a word which stands nowhere else; the same for the same arguments.

    Args:
        word: Letters and digits.
        session: Makes the text another one, not the id.
        text: What else it says.
    """
    block = {"type": "text", "text": f"{word} {session} {text}", "id": f"b{word}", "created_at": _TIME}
    return Msg.model_validate(
        {"name": "user", "role": "user", "id": f"m{word}", "created_at": _TIME, "content": [block]}
    )


def result(word: str, *, call_id: str = "call_1", text: str = "") -> ToolResultBlock:
    """Return a tool's result that has a word which stands nowhere else."""
    blocks: list[TextBlock | DataBlock] = [TextBlock(text=f"{word} "), TextBlock(text=text or "and more")]
    return ToolResultBlock(id=call_id, name="Bash", output=blocks)


def picture(data: str = "iVBORw0KGgo=") -> DataBlock:
    """Return an image in base64."""
    return DataBlock(source=Base64Source(data=data, media_type="image/png"), name="shot")


async def store_messages(offloader: Any, words: Sequence[str], *, session: str = SESSION) -> str:
    """Offload messages as the host does; return the reference, which is checked."""
    return usable(await offloader.offload_context(session, msgs=[said(word, session=session) for word in words]))


def usable(reference: object) -> str:
    """Check that a reference can stand in a prompt, and return it.

    Raises:
        AssertionError: It cannot.
    """
    assert isinstance(reference, str), f"the reference is {type(reference).__name__}: return a str"
    assert reference.strip(), "an empty reference: return where the content is, the agent is shown it"
    assert len(reference) <= _REFERENCE_CHARS, f"a reference of {len(reference)} characters is too long for a prompt"
    assert reference.isprintable(), f"{reference[:80]!r} is not one printable line"
    assert not set("<>\uff1c\uff1e") & set(reference), f"{reference[:80]!r} has '<' or '>', which close what quotes it"
    return reference


def words_in(text: str, words: Sequence[str]) -> Sequence[str]:
    """Return the words that stand in a text, each as often as it does, in the order of the text."""
    places = []
    for word in words:
        at = text.find(f"{word} ")
        while at >= 0:
            places.append((at, word))
            at = text.find(f"{word} ", at + 1)
    return [word for _, word in sorted(places)]


def must_take_media(offloader: Any) -> None:
    """Skip a test of media where an offloader has no place for them."""
    if not hasattr(offloader, "offload_data_block"):
        pytest.skip(f"{type(offloader).__name__} has no offload_data_block, which is the method that may be missing")


def _file(reference: str) -> bytes | None:
    path = Path(reference)
    return path.read_bytes() if "\0" not in reference and os.path.isfile(path) else None  # noqa: PTH113 - never raises
