"""R5: JSON bombs: kept whole, or refused with an error of stores, in bounded memory."""

import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ctxkit.errors import StoreError
from ctxkit.offload import BLOB, FileStore, MemoryStore, Record, Store, lines, read_records
from ctxkit.sessions import MemorySessionStore, SessionStore, SqliteSessionStore, TranscriptSessionStore

SESSION = "s"
BOMBS = {
    "nested 100,000 deep": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "objects 100,000 deep": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a number of a million digits": '{"a":' + "1" * 1_000_000 + "}",
    "lone surrogates": '{"a":"\ud800","b":"\\udfff"}',
    "NUL": '{"a":"\x00","b":"\\u0000"}',
    "a million keys that are one": "{" + ",".join(['"k":1'] * 1_000_000) + "}",
    "infinity": '{"a":1e999999,"b":NaN,"c":-Infinity}',
    "no JSON": "{nobody}",
    "line separators": '{"a":"\u2028\u2029\x85\x0b\x0c\x1c"}',
}
LINE_BYTES = 50_000_000
MOST_MB = 600
"""Of growth, for a line of 50 MB that is read, copied aside and blanked: a few times the line, whatever stands in it."""

pytestmark = [pytest.mark.crash, pytest.mark.row("X1", "X17")]


async def keep(store: Store, body: str) -> None:
    """Store a bomb between two records, and ask for all three."""
    wanted = {"before": b'{"id":"before"}', "after": b'{"id":"after"}'}
    await store.append(SESSION, [Record(key="before", body='{"id":"before"}')])
    with suppress(StoreError):
        await store.append(SESSION, [Record(key="bomb", body=body)])
        wanted["bomb"] = body.encode("utf-8", "backslashreplace")
    await store.append(SESSION, [Record(key="after", body='{"id":"after"}')])
    entries = [entry async for entry in store.list(SESSION) if entry.kind != BLOB]
    assert {entry.key or "": lines.bare(data) async for entry, data in read_records(store, entries)} == wanted


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_a_store_keeps_a_bomb_whole_or_refuses_it(quick, body):
    async def run() -> None:
        for _ in range(2):
            store = FileStore(quick)
            await keep(store, body)
            await store.aclose()
        await keep(MemoryStore(), body)

    asyncio.run(run())


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_a_bomb_that_is_planted_in_a_log_costs_no_record(quick, body):
    folder = quick / "sessions" / SESSION
    folder.mkdir(parents=True)
    good = [lines.seal(b'{"id":"m"}', Record(key=f"m{number}", body="{}"), number) for number in (1, 2)]
    planted = body.encode("utf-8", "surrogatepass")
    (folder / "context.jsonl").write_bytes(good[0] + planted + b"\n" + good[1] + planted)

    async def run() -> None:
        store = FileStore(quick)
        await store.append(SESSION, [Record(key="new", body='{"id":"new"}')])
        keys = [entry.key async for entry in store.list(SESSION) if entry.kind != BLOB]
        assert [key for key in keys if key is not None] == ["m1", "m2", "new"]
        await store.aclose()

    asyncio.run(run())


def deep(depth: int) -> object:
    found: object = 1
    for _ in range(depth):
        found = [found]
    return found


STATES: dict[str, object] = {
    "deep": deep(100_000),
    "almost too deep": deep(900),
    "not quite so deep": deep(300),
    "a huge number": 10**5000,
    "a large number": 10**4000,
    "surrogates": "\ud800\udfff",
    "NUL": "\x00",
    "infinity": float("inf"),
    "a set": {1, 2},
    "bytes": b"x",
    "long": "x" * 10_000_000,
}


@pytest.mark.parametrize("value", STATES.values(), ids=STATES)
@pytest.mark.parametrize("kind", ["memory", "sqlite", "transcripts"])
def test_a_store_of_sessions_keeps_a_bomb_or_refuses_it_and_the_state_before_stays(quick, kind, value):
    good = {"session_id": SESSION, "summary": "good", "context": [{"id": "g", "role": "assistant", "content": []}]}

    def opened() -> SessionStore:
        return SqliteSessionStore(quick / "s.db") if kind == "sqlite" else TranscriptSessionStore(quick / "t")

    async def run() -> None:
        store = MemorySessionStore() if kind == "memory" else opened()
        await store.save(SESSION, good)
        wanted = "good"
        with suppress(StoreError):
            message = {"id": "bomb", "role": "assistant", "content": [], "metadata": {"a": value}}
            await store.save(SESSION, {"session_id": SESSION, "summary": "bomb", "context": [message]})
            wanted = "bomb"
        if kind != "memory":
            await store.aclose()
            store = opened()
        found = await store.load(SESSION)
        assert found is not None
        assert found.state["summary"] == wanted
        await store.save(SESSION, good)
        assert (await store.load(SESSION)).state == good
        await store.aclose()

    asyncio.run(run())


CHILD = """
import asyncio, resource, sys
from ctxkit.offload import FileStore, Record
from ctxkit.sessions import TranscriptSessionStore

async def main(root):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store = FileStore(root)
    await store.append("s", [Record(key="new", body='{"id":"new"}')])
    keys = [entry.key async for entry in store.list("s") if entry.sequence]
    await store.aclose()
    sessions = TranscriptSessionStore(root)
    try:
        await sessions.load("s")
    finally:
        await sessions.aclose()
    print(keys.count("m"), keys.count("new"), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("content", [b"x", b"[", b'{"a":', b"1", b"\x00"])
@pytest.mark.parametrize("is_ended", [True, False])
def test_a_line_of_fifty_megabytes_costs_a_few_times_its_size(quick, content, is_ended):
    line = (content * (LINE_BYTES // len(content)))[:LINE_BYTES] + b"\n" * is_ended
    good = lines.seal(b'{"id":"m"}', Record(key="m", body="{}"), 1)
    for path in (quick / "sessions/s/context.jsonl", quick / "agents/main/sessions/s.jsonl"):
        path.parent.mkdir(parents=True)
        path.write_bytes(good + line)
    package = Path(sys.modules["ctxkit"].__file__ or "").parents[1]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(quick)],
        capture_output=True, text=True, timeout=120, check=False, cwd=package,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    old, new, grown_mb = map(int, done.stdout.split())
    assert (old, new) == (1, 1)
    assert grown_mb < MOST_MB
