"""Breaks files as disks, editors, crashes and people with bad intent do."""

from collections.abc import Callable, Sequence
from random import Random

BOMBS = (
    b"",
    b"\x00" * 100,
    b"\x00" * 5000,
    b"{" * 5000,
    b"[" * 100_000,
    b'{"a":' * 3000 + b"1" + b"}" * 3000,
    b'{"a":' * 800 + b"1" + b"}" * 800,
    b'{"role":"user","id":"m1","content":' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"type":"session","version":1,"id":' + b"[" * 900 + b"]" * 900 + b"}",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"null",
    b"[]",
    b'"x"',
    b"NaN",
    b"{}",
    b'{"a":1}{"b":2}',
    b'{"id":"m1"}',
    b"\r",
    b" ",
    b"\n\n",
    b'{"_ctxkit":{"n":1,"c":"00000000"}}',
    b',"_ctxkit":{"k":"m1","n":1,"c":"00000000"}}',
    b'{"x":1,"_ctxkit":{"k":"m1","n":999999999999999,"c":"00000000"}}',
    b'{"x":1e999999,"id":"i"}',
    b'{"x":' + b"1" * 5000 + b"}",
    b'{"x":' + b"1" * 4000 + b"}",
    b'{"a":"\\ud800"}',
    b'{"role":"user","id":"\\ud800","content":"\\udfff\\u0000"}',
    b'{"role":"user","id":{},"content":{}}',
    b'{"role":[],"content":null}',
    b'{"type":"session"}',
    b'{"type":"session","version":"x","id":7}',
    b"<<<TRUNCATED>>>",
    b"-" * 30_000,
    b'{"text":"' + b"x" * 300_000 + b'"}',
    b'{"text":"' + b"x" * 300_000,
    b"{" + b",".join(b'"k":1' for _ in range(2000)) + b"}",
    b'{"id":"m1","\xff":1}',
    b'{"id":"\xed\xa0\x80"}',
    b"\x1b[2J\x07",
)
"""Lines that some parser stumbles over, without their line breaks."""


def _flip(data: bytes, chance: Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 3])):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def _cut(data: bytes, chance: Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _lose(data: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.randrange(400) :]


def _insert(data: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.randrange(1, 300)) + data[at:]


def _zeros(data: bytes, chance: Random) -> bytes:
    """A page that was never written, as after a power cut."""
    page = chance.choice([512, 4096])
    at = chance.randrange(len(data)) // page * page
    length = min(page, len(data) - at)
    return data[:at] + bytes(length) + data[at + length :]


def _bomb(data: bytes, chance: Random) -> bytes:
    found = data.split(b"\n")
    found.insert(chance.randrange(len(found) + 1), chance.choice(BOMBS))
    return b"\n".join(found)


def _splice(data: bytes, chance: Random) -> bytes:
    """Two writers in one line."""
    found = data.splitlines(keepends=True)
    at = chance.randrange(len(found))
    found[at] = found[at].rstrip(b"\n") + chance.choice(found)
    return b"".join(found)


def _shuffle(data: bytes, chance: Random) -> bytes:
    found = data.splitlines(keepends=True)
    chance.shuffle(found)
    return b"".join(found)


def _repeat(data: bytes, chance: Random) -> bytes:
    found = data.splitlines(keepends=True)
    return b"".join([*found, *chance.sample(found, chance.randint(1, len(found)))])


def _dos(data: bytes, chance: Random) -> bytes:
    """An editor of another system has saved it: line breaks, and perhaps a byte order mark."""
    return chance.choice([b"", b"\xef\xbb\xbf"]) + data.replace(b"\n", b"\r\n")


def _replace(_: bytes, chance: Random) -> bytes:
    return chance.choice([b"", b"\n", bytes(4096), chance.randbytes(2000), chance.choice(BOMBS)])


WAYS: Sequence[Callable[[bytes, Random], bytes]] = (
    _flip, _cut, _lose, _insert, _zeros, _bomb, _splice, _shuffle, _repeat, _dos, _replace,
)  # fmt: skip


def broken(data: bytes, turn: int, chance: Random) -> bytes:
    """Return a file broken in one way, each in its turn, and sometimes in two."""
    found = WAYS[turn % len(WAYS)](data, chance)
    if found and chance.random() < 0.3:
        found = chance.choice(WAYS)(found, chance)
    return found
