"""Vocabularies are loaded before any test runs an event loop, for loading blocks."""

from __future__ import annotations

import warnings

import pytest

from ctxkit.tokens import Counter, default_counter


class O200k:
    """Counts by o200k, which is not the prior."""

    name = "o200k_of_bpe_openai"

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the package's own, on import
            import bpe_openai
        self._encoding = bpe_openai.get_encoding("o200k_base")

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


@pytest.fixture(scope="session", autouse=True)
def cl100k() -> Counter:
    return default_counter()


@pytest.fixture(scope="session")
def o200k() -> Counter:
    return O200k()
