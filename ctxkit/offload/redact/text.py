"""Redacts texts of any size in pieces, with pauses for other tasks; a secret that two pieces share is found whole."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple, Self

from ctxkit.errors import ConfigError
from ctxkit.offload.redact.secrets import LONGEST_SECRET_CHARS, SecretRedactor
from ctxkit.offload.redact.tally import count

Redactor = Callable[[str], str]
"""Returns a text without what must not be kept. The same text must always give the same, for what is stored is known by
the hash of its redacted form; and it must be quick, for it runs on the event loop."""

PIECE_CHARS: Final = 32_768
_LINE_CHARS: Final = 4096
"""A text is cut at a line end where there is one within so many characters."""
_OWN: Final = "own"
"""Kind under which is counted what a redactor of somebody else's has changed, once a piece."""


async def redact_text(text: str, redactor: Redactor) -> str:
    """Return a text without secrets; the very same object where there are none.

    Raises:
        ConfigError: The redactor failed.
    """
    if len(text) <= PIECE_CHARS:
        new = _applied(redactor, text)
    else:
        new = "".join([piece async for piece in redacted_pieces(text, redactor)])
    return text if new == text else new


async def redacted_pieces(
    text: str, redactor: Redactor | None, start: int = 0, stop: int | None = None
) -> AsyncIterator[str]:
    """Yield a part of a text without secrets, in pieces of about 32,768 characters, pausing after each.

    ctxkit's own redactor looks over the end of a piece, and of the part. Another one gets pieces that end at a line or a
    blank, where there is one.

    Args:
        text: The whole text.
        redactor: Redacts; `None` for nothing.
        start: First character of the part, 0-based.
        stop: First character behind it; `None` for the end.

    Raises:
        ConfigError: The redactor failed.
    """
    stop = len(text) if stop is None else stop
    done = start
    while done < stop:
        end = min(max(start + PIECE_CHARS, done), stop)
        if isinstance(redactor, SecretRedactor):
            yield (piece := _Piece.of(text, start, done, end, redactor)).text
            done = piece.done
        elif redactor is not None:
            end = end if end == stop else _line_end(text, start, end)
            yield _applied(redactor, text[start:end])
            done = end
        else:
            yield text[start:end]
            done = end
        start = end
        await asyncio.sleep(0)


class _Piece(NamedTuple):
    text: str
    done: int
    """Where the next piece begins; behind the end of this one, where a secret goes on there."""

    @classmethod
    def of(cls, text: str, start: int, done: int, end: int, redactor: SecretRedactor) -> Self:
        """Redact what was not done yet of a part; what begins in it is found, also where the text before is done."""
        spans = redactor.spans(text, start, end)
        fresh = [span for span in spans if span.start >= done]
        done = max([done, *(span.stop for span in spans if span.start < done)])
        last = max([end, *(span.stop for span in fresh)])
        return cls(redactor.replaced(text, done, last, fresh), max(done, last))


def clear_start(text: str, at: int, redactor: Redactor | None) -> int:
    """Return the first place from `at` on where a text can begin without the end of a secret."""
    if isinstance(redactor, SecretRedactor):
        spans = redactor.spans(text, max(0, at - LONGEST_SECRET_CHARS), at)
        return max([at, *(span.stop for span in spans)])
    if redactor is None:
        return at
    line = text.find("\n", at, at + _LINE_CHARS)
    return at if line < 0 else line + 1


def _line_end(text: str, start: int, end: int) -> int:
    """Return where to cut a text near `end`: behind a line, else behind a blank, else there."""
    for mark, least in (("\n", end - _LINE_CHARS), (" ", start + (end - start) // 2)):
        cut = text.rfind(mark, max(start, least), end) + 1
        if cut:
            return cut
    return end


def _applied(redactor: Redactor, text: str) -> str:
    try:
        new = redactor(text)
    except Exception as exc:
        msg = f"The redactor {redactor!r} failed ({type(exc).__name__}), so nothing passes it: mend it, or turn it off."
        raise ConfigError(msg) from exc
    if not isinstance(new, str):
        msg = f"The redactor {redactor!r} returned {type(new).__name__} instead of a text: return the text without secrets."
        raise ConfigError(msg)
    if new != text and not isinstance(redactor, SecretRedactor):
        count((_OWN,))
    return new
