"""Files that are broken: every good record is kept, and what was bad is copied before it goes."""

import asyncio
import json
import os
import random
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.offload import FileLimits, FileStore, lines

from .samples import ids, record

FULL = bool(os.environ.get("CTXKIT_CRASH_FULL"))


def log_of(root):
    return root / "sessions/s/context.jsonl"


def ids_by_jq(path):
    return subprocess.run(["jq", "-c", ".id", path], check=True, capture_output=True).stdout.split()


@pytest.mark.asyncio
async def test_a_bad_line_is_copied_aside_and_blanked_in_place_by_the_next_write(tmp_path):
    store = FileStore(tmp_path)
    await store.append("s", [record("a"), record("b"), record("c")])
    path = log_of(tmp_path)
    before = path.read_bytes().splitlines(keepends=True)
    bad = before[1].replace(b'"id"', b'"ID"')
    path.write_bytes(before[0] + bad + before[2])
    inode = path.stat().st_ino
    other = FileStore(tmp_path)
    assert await ids(other) == ["a", "c"]
    await other.append("s", [record("d")])
    after = path.read_bytes().splitlines(keepends=True)
    assert after[:3] == [before[0], b" " * (len(bad) - 1) + b"\n", before[2]]
    assert path.stat().st_ino == inode
    [aside] = path.parent.glob("context.jsonl.bad-*")
    assert aside.read_bytes() == bad.rstrip(b"\n")
    assert aside.name.split("-")[1] == str(len(before[0]))
    assert await ids(FileStore(tmp_path)) == ["a", "c", "d"]
    assert json.loads(after[3])["_ctxkit"]["n"] == 4
    if shutil.which("jq"):
        assert await asyncio.to_thread(ids_by_jq, path) == [b'"a"', b'"c"', b'"d"']


@pytest.mark.asyncio
async def test_a_hole_of_zeros_in_a_closed_file_is_blanked_too(tmp_path):
    limits = FileLimits(segment_bytes=300)
    store = FileStore(tmp_path, limits=limits)
    for name in "abcd":
        await store.append("s", [record(name, "x" * 100)])
    path = log_of(tmp_path)
    data = bytearray(path.read_bytes())
    first = data.index(b"\n")
    data[10:first] = bytes(first - 10)
    path.write_bytes(data)
    other = FileStore(tmp_path, limits=limits)
    await other.append("s", [record("e")])
    assert b"\0" not in path.read_bytes()
    assert len(path.read_bytes()) == len(data)
    assert await ids(other) == await ids(FileStore(tmp_path)) == ["b", "c", "d", "e"]


@pytest.mark.asyncio
async def test_nothing_is_mended_by_reading(tmp_path):
    await FileStore(tmp_path).append("s", [record("a")])
    path = log_of(tmp_path)
    path.write_bytes(b"junk\n" + path.read_bytes() + b'{"torn')
    before = path.read_bytes()
    assert await ids(FileStore(tmp_path)) == ["a"]
    assert path.read_bytes() == before


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Break a file in one of the ways in which files break."""
    at, to = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
    bomb = chance.choice(
        [b'{"a":' * 5000 + b"1" + b"}" * 5000, b'{"n":' + b"9" * 6000 + b"}", b'{"t":"\\ud800"}', b"\0" * 600]
    )
    return chance.choice(
        [
            lambda: data[:at],
            lambda: (
                data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if at < len(data) else data
            ),
            lambda: data[:at] + data[to:],
            lambda: data[:at] + bytes(to - at) + data[to:],
            lambda: data[:at] + bomb + b"\n" + data[at:],
            lambda: data + data[at:to],
            lambda: data[:at] + chance.randbytes(50) + data[at:],
            lambda: b"\r\n".join(data.split(b"\n")),
        ]
    )()


@pytest.mark.crash
@pytest.mark.asyncio
@settings(max_examples=10_000 if FULL else 60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
async def test_whatever_has_happened_to_a_file_every_line_that_is_whole_is_kept(tmp_path_factory, seed):
    chance = random.Random(seed)
    root = tmp_path_factory.mktemp("root")
    store = FileStore(root)
    for number in range(8):
        await store.append("s", [record(f"m{number}", "é" * chance.randrange(200))])
    await store.aclose()
    path = log_of(root)
    original = path.read_bytes()
    broken = mutate(original, chance)
    path.write_bytes(broken)
    whole = [
        json.loads(line)["id"] for line in original.splitlines() if line + b"\n" in broken.splitlines(keepends=True)
    ]
    for other in (FileStore(root), FileStore(root)):
        await other.append("s", [record("after")])
        listed = [entry async for entry in other.list("s")]
        found = [lines.unseal(await other.get(entry.reference, entry.offset, entry.size)) for entry in listed]
        assert None not in found
        ours = [json.loads(one.body)["id"] for one in found if one.key is not None]
        assert set(whole) | {"after"} <= set(ours)
        assert set(ours) <= {f"m{number}" for number in range(8)} | {"after"}
        assert len(ours) == len(set(ours))
        assert [entry.sequence for entry in listed] == sorted({entry.sequence for entry in listed})
        await other.aclose()
    for line in path.read_bytes().splitlines():
        assert not line.strip() or lines.examine(line)


@pytest.mark.crash
@pytest.mark.asyncio
@settings(max_examples=5_000 if FULL else 60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_whatever_a_power_cut_leaves_of_what_was_not_synced_all_that_was_is_kept(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("root")
    store = FileStore(root)
    sizes = st.lists(st.integers(0, 900), min_size=1, max_size=4)
    synced, calls = 0, data.draw(st.integers(1, 3))
    for call in range(calls + 1):
        if call == calls:
            synced = log_of(root).stat().st_size
        records = [record(f"{call}-{at}", "x" * size) for at, size in enumerate(data.draw(sizes))]
        await store.append("s", records)
    kept = [one for one in await ids(store) if not one.startswith(f"{calls}-")]
    last = [one for one in await ids(store) if one.startswith(f"{calls}-")]
    await store.aclose()
    content = bytearray(log_of(root).read_bytes()[: data.draw(st.integers(synced, log_of(root).stat().st_size))])
    for sector in range(synced // 512, len(content) // 512 + 1):
        if data.draw(st.booleans()):
            start, end = max(synced, sector * 512), min(len(content), (sector + 1) * 512)
            content[start:end] = bytes(max(0, end - start))
    log_of(root).write_bytes(content)
    for other in (FileStore(root), FileStore(root)):
        await other.append("s", [record("after")])
        found = await ids(other)
        assert found[: len(kept)] == kept
        assert set(found) <= {*kept, *last, "after"}
        assert len(found) == len(set(found))
        await other.append("s", records)
        assert sorted(await ids(other)) == sorted([*kept, *last, "after"])
        await other.aclose()
    for line in log_of(root).read_bytes().splitlines():
        assert not line.strip() or json.loads(line)
