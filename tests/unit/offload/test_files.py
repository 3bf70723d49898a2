"""What the store on files promises beyond the others: other processes, torn files, planted links, private modes."""

import asyncio
import errno
import json
import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.errors import RecordNotFoundError, StoreReadError, StoreWriteError
from ctxkit.offload import (
    BLOB,
    FileStore,
    Record,
    directory,
    read_records,
    record_key,
    result_name,
)
from ctxkit.offload.files import blobs, log
from ctxkit.offload.locks import lock

from .test_names import identifiers

posix = pytest.mark.skipif(os.name != "posix", reason="descriptors of directories and modes are POSIX")


def record(identifier: str, text: str = "x") -> Record:
    body = json.dumps({"id": identifier, "text": text})
    return Record(key=record_key(identifier, body), body=body)


async def ids(store: FileStore, session: str = "s") -> list[str]:
    entries = [entry async for entry in store.list(session) if entry.kind != BLOB]
    return [json.loads(data)["id"] async for _, data in read_records(store, entries)]


def log_of(root: Path, session: str = "s") -> Path:
    return root / "sessions" / session / "context.jsonl"


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["_ctxkit"]["n"] for line in path.read_bytes().splitlines()]


@pytest.mark.asyncio
async def test_the_layout_is_the_hosts(tmp_path):
    store = FileStore(tmp_path)
    assert await store.append("s", [record("a")]) == str(tmp_path / "sessions/s/context.jsonl")
    assert await store.put("s", result_name("c1"), b"x") == str(tmp_path / "sessions/s/tool_result-c1.txt")
    assert await store.put(None, "ab.png", b"x") == str(tmp_path / "data/ab.png")


@pytest.mark.asyncio
async def test_another_store_on_the_same_files_sees_and_continues_them(tmp_path):
    one, other = FileStore(tmp_path), FileStore(tmp_path)
    await one.append("s", [record("a")])
    await other.append("s", [record("a"), record("b")])
    await one.append("s", [record("b"), record("c")])
    assert await ids(one) == await ids(other) == await ids(FileStore(tmp_path)) == ["a", "b", "c"]
    assert numbers(log_of(tmp_path)) == [1, 2, 3]


@pytest.mark.asyncio
async def test_nothing_that_is_stored_is_ever_rewritten(tmp_path):
    store = FileStore(tmp_path)
    before = b""
    for number in range(20):
        await store.append("s", [record(str(number))])
        now = log_of(tmp_path).read_bytes()
        assert now.startswith(before)
        before = now


@pytest.mark.asyncio
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_torn_tail_is_set_aside_and_everything_before_it_is_kept(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("root")
    writer = FileStore(root)
    for one in (record("a", "é" * 50), record("b"), record("c")):
        await writer.append("s", [one])
    await writer.aclose()
    path = log_of(root)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = [one for one, end in zip("abc", _ends(whole), strict=True) if cut >= end - 1]
    store = FileStore(root)
    await store.append("s", [record("d")])
    assert await ids(store) == await ids(FileStore(root)) == [*kept, "d"]
    assert numbers(path) == list(range(1, len(kept) + 2))
    aside = list(path.parent.glob("context.jsonl.torn-*"))
    torn = whole[:cut][max([0, *(end for end in _ends(whole) if end <= cut)]) :]
    assert [file.read_bytes() for file in aside] == ([torn] if torn and cut + 1 not in _ends(whole) else [])


@pytest.mark.asyncio
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_of_a_call_that_is_torn_nothing_is_left_and_what_is_torn_is_set_aside(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("root")
    writer = FileStore(root)
    await writer.append("s", [record("a"), record("b")])
    path = log_of(root)
    before = path.stat().st_size
    call = [record("c"), record("d", "é" * 50), record("e")]
    await writer.append("s", call)
    whole = path.read_bytes()
    cut = data.draw(st.integers(before, len(whole)))
    path.write_bytes(whole[:cut])
    is_there = cut >= len(whole) - 1
    store = FileStore(root)
    assert await ids(FileStore(root)) == ["a", "b", *("cde" if cut == len(whole) else "")]
    await store.append("s", [record("f")])
    assert await ids(store) == await ids(FileStore(root)) == ["a", "b", *("cde" if is_there else ""), "f"]
    await store.append("s", call)
    assert sorted(await ids(store)) == list("abcdef")
    assert numbers(path) == list(range(1, 7))
    aside = [file.read_bytes() for file in path.parent.glob("context.jsonl.torn-*")]
    torn = whole[before:cut]
    # A last line that lacks only its line break is given one before it is set aside with its call.
    assert aside == ([] if is_there or cut == before else [torn + b"\n" if cut + 1 in _ends(whole) else torn])
    for one in (store, writer):
        await one.aclose()


def _ends(whole: bytes) -> list[int]:
    return [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]


@pytest.mark.asyncio
async def test_damage_in_the_middle_costs_only_the_damaged_record(tmp_path):
    store = FileStore(tmp_path)
    await store.append("s", [record("a"), record("b"), record("c")])
    path = log_of(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"id": "b"', b'"id": "X"'))
    assert await ids(FileStore(tmp_path)) == ["a", "c"]
    await FileStore(tmp_path).append("s", [record("b")])
    assert await ids(FileStore(tmp_path)) == ["a", "c", "b"]


@pytest.mark.asyncio
async def test_lines_of_the_host_are_records_too(tmp_path):
    path = log_of(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text('{"id":"old","role":"user"}\n')
    store = FileStore(tmp_path)
    await store.append("s", [record("new")])
    assert await ids(store) == ["old", "new"]
    assert path.read_text().startswith('{"id":"old","role":"user"}\n')


@pytest.mark.asyncio
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(session=identifiers, call=identifiers)
async def test_hostile_ids_stay_inside_the_root(tmp_path_factory, session, call):
    outer = tmp_path_factory.mktemp("outer")
    root = outer / "root"
    store = FileStore(root)
    references = [await store.append(session, [record("a")]), await store.put(session, result_name(call), b"x")]
    assert [await store.get(reference) for reference in references][1] == b"x"
    for reference in references:
        assert not {"..", ".", ""} & set(reference.split("/")[1:])
        assert Path(reference).is_relative_to(root / "sessions")
        assert len(Path(reference).relative_to(root).parts) == 3
    await store.delete(session)
    assert [path.name for path in outer.iterdir()] == ["root"]
    assert list((root / "sessions").iterdir()) == []


@posix
@pytest.mark.asyncio
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_files_are_private_whatever_the_umask(tmp_path, umask):
    root = tmp_path / "root"
    before = os.umask(umask)
    try:
        store = FileStore(root)
        await store.append("s", [record("a")])
        await store.put("s", "x.txt", b"x")
        await store.put(None, "x.png", b"x")
    finally:
        os.umask(before)
    modes = {path.relative_to(root).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert {mode for path, mode in modes.items() if (root / path).is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if (root / path).is_file()} == {0o600}


@posix
@pytest.mark.asyncio
async def test_files_that_were_open_to_others_become_private(tmp_path):
    path = log_of(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text('{"id":"old"}\n')
    (path.parent / "tool_result-1.txt").write_text("x")
    for loose in (path, path.parent / "tool_result-1.txt"):
        loose.chmod(0o644)
    path.parent.chmod(0o755)
    await FileStore(tmp_path).append("s", [record("a")])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


@posix
@pytest.mark.asyncio
@pytest.mark.parametrize("planted", ["link", "dangling", "hard", "pipe", "directory"])
async def test_a_planted_log_is_not_written_to(tmp_path, planted):
    root, victim = tmp_path / "root", tmp_path / "victim"
    victim.write_text("precious")
    path = log_of(root)
    path.parent.mkdir(parents=True)
    _plant(path, victim, planted)
    with pytest.raises(StoreWriteError):
        await FileStore(root).append("s", [record("a")])
    assert victim.read_text() == "precious"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["root", "victim"]


@posix
@pytest.mark.asyncio
@pytest.mark.parametrize("planted", ["link", "dangling", "pipe", "directory"])
async def test_a_planted_blob_is_passed_over(tmp_path, planted):
    root, victim = tmp_path / "root", tmp_path / "victim"
    victim.write_text("precious")
    path = root / "sessions" / "s" / "tool_result-1.txt"
    path.parent.mkdir(parents=True)
    _plant(path, victim, planted)
    store = FileStore(root)
    reference = await store.put("s", "tool_result-1.txt", b"content")
    assert await store.get(reference) == b"content"
    assert victim.read_text() == "precious"
    with pytest.raises(RecordNotFoundError):
        await store.get(str(path))


@posix
@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["sessions", "sessions/s", "data"])
async def test_a_planted_directory_link_is_not_followed(tmp_path, name):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / name).parent.mkdir(parents=True)
    (root / name).symlink_to(elsewhere)
    store = FileStore(root)
    write = store.put(None, "x.png", b"x") if name == "data" else store.append("s", [record("a")])
    with pytest.raises(StoreWriteError):
        await write
    assert list(elsewhere.iterdir()) == []
    if name == "sessions/s":
        (elsewhere / "kept").write_text("x")
        await store.delete("s")
        assert not (root / name).is_symlink()
        assert (elsewhere / "kept").exists()


def _plant(path: Path, victim: Path, kind: str) -> None:
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling":
        path.symlink_to(victim.with_name("not-there"))
    elif kind == "hard":
        path.hardlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


@pytest.mark.asyncio
@pytest.mark.parametrize("failing", ["write", "short", "sync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_a_failed_append_leaves_the_file_as_it_was_and_may_be_repeated(tmp_path, monkeypatch, failing, code):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    before = log_of(tmp_path).read_bytes()
    real = os.write

    def fail(descriptor, data=b""):
        if failing == "short":
            real(descriptor, bytes(data)[:5])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        if failing == "sync":
            patch.setattr(log, "sync_file", fail)
        else:
            patch.setattr(os, "write", fail)
        with pytest.raises(StoreWriteError, match=f"context.jsonl.*{errno.errorcode[code]}"):
            await store.append("s", [record("b")])
    assert log_of(tmp_path).read_bytes() == before
    await store.append("s", [record("b")])
    assert await ids(store) == ["a", "b"]


@pytest.mark.asyncio
async def test_a_failed_write_that_could_not_be_taken_back_is_whole_before_the_next_one(tmp_path, monkeypatch):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])

    def fail(*_):
        raise OSError(errno.EIO, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(log, "sync_file", fail)
        patch.setattr(os, "ftruncate", fail)
        for _ in range(2):
            with pytest.raises(StoreWriteError):
                await store.append("s", [record("b")])
    await store.append("s", [record("c")])
    assert await ids(store) == ["a", "b", "c"]
    await store.append("s", [record("b")])
    assert await ids(store) == await ids(FileStore(tmp_path)) == ["a", "b", "c"]


@pytest.mark.asyncio
async def test_what_could_not_be_taken_back_stays_where_another_process_has_acknowledged_it(tmp_path, monkeypatch):
    store, other = FileStore(tmp_path), FileStore(tmp_path)
    await store.append("s", [record("a")])

    def fail(*_):
        raise OSError(errno.EIO, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(log, "sync_file", fail)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(StoreWriteError):
            await store.append("s", [record("b")])
    await other.append("s", [record("b")])
    await store.append("s", [record("c")])
    assert await ids(store) == await ids(other) == ["a", "b", "c"]


@pytest.mark.asyncio
async def test_a_failed_blob_leaves_nothing(tmp_path, monkeypatch):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])

    def fail(_):
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(blobs, "sync_file", fail)
        with pytest.raises(StoreWriteError, match="ENOSPC"):
            await store.put("s", "x.txt", b"x" * 1000)
    assert sorted(path.name for path in log_of(tmp_path).parent.iterdir()) == [".lock", "context.jsonl"]


@pytest.mark.asyncio
async def test_a_file_that_cannot_be_read_is_an_error_not_an_empty_session(tmp_path, monkeypatch):
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    real = os.open

    def fail(path, *args, **kwargs):
        if path == "context.jsonl":
            raise OSError(errno.EMFILE, "too many open files")
        return real(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        other = FileStore(tmp_path)
        with pytest.raises(StoreReadError, match="EMFILE"):
            await ids(other)
        with pytest.raises(StoreWriteError, match="EMFILE"):
            await other.append("s", [record("b")])
    assert await ids(store) == ["a"]


@posix
@pytest.mark.asyncio
async def test_a_session_that_another_writer_holds_is_an_error_after_a_bounded_wait(tmp_path):
    store = FileStore(tmp_path, lock_timeout_s=0.05)
    await store.append("s", [record("a")])
    with (
        directory.Directory.at(log_of(tmp_path).parent, create=False) as folder,
        lock.locked(folder, timeout_s=1),
        pytest.raises(StoreWriteError, match="another writer"),
    ):
        await store.append("s", [record("b")])
    await store.append("s", [record("b")])
    assert await ids(store) == ["a", "b"]


@pytest.mark.asyncio
async def test_cancelled_appends_that_are_repeated_store_each_record_once(tmp_path):
    store = FileStore(tmp_path)
    for number in range(60):
        task = asyncio.create_task(store.append("s", [record(str(number))]))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.append("s", [record(str(number))])
    assert await ids(store) == [str(number) for number in range(60)]


@pytest.mark.asyncio
async def test_what_killed_writers_left_is_removed_when_it_is_old(tmp_path):
    folder = log_of(tmp_path).parent
    folder.mkdir(parents=True)
    for name, age in ((".tmp-old", 7200), (".tmp-new", 0)):
        (folder / name).write_text("half")
        os.utime(folder / name, (time.time() - age, time.time() - age))
    store = FileStore(tmp_path)
    await store.append("s", [record("a")])
    assert sorted(path.name for path in folder.glob(".tmp-*")) == [".tmp-new"]
    assert [entry.kind async for entry in store.list("s")] == ["message"]


@pytest.mark.asyncio
async def test_it_works_where_directories_have_no_descriptors_and_files_no_second_names(tmp_path, monkeypatch):
    def no_links(*_, **__):
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(directory, "_BY_DESCRIPTOR", False)
    monkeypatch.setattr(os, "link", no_links)
    store = FileStore(tmp_path / "root")
    await store.append("s", [record("a"), record("b")])
    first = await store.put("s", "x.txt", b"1")
    second = await store.put("s", "x.txt", b"2")
    assert (await store.get(first), await store.get(second)) == (b"1", b"2")
    assert await ids(store) == ["a", "b"]
    await store.delete("s")
    assert await ids(store) == []


def test_a_store_that_was_used_before_a_fork_works_after_it(tmp_path):
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    store = FileStore(tmp_path)
    asyncio.run(store.append("s", [record("parent")]))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(store.append("s", [record("child")]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert asyncio.run(ids(store)) == ["parent", "child"]


def test_a_record_of_any_size_is_read_back(tmp_path):
    async def play():
        store = FileStore(tmp_path)
        await store.append("s", [record("a"), record("big", "x" * 3_000_000), record("c")])
        assert await ids(FileStore(tmp_path)) == ["a", "big", "c"]
        [_, big, _] = [entry async for entry in store.list("s")]
        assert await store.get(big.reference, big.offset, big.size) == record("big", "x" * 3_000_000).body.encode()
        assert big.key == record("big", "x" * 3_000_000).key

    asyncio.run(play())
