import asyncio
import json
import random
import re
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxkit.offload import FileStore, MemoryStore, Recall, Record, StoreOffloader, fence, index

from .fakes import Call, Data, FakeCodec, FourCharRuler, Hint, Message, Result, Source, Text, said

RULER = FourCharRuler()
UUID = "3f2a11bb-9c4e-4f1a-8d2e-0123456789ab"


@pytest.fixture(params=["files", "memory"])
def store(request, tmp_path):
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


@pytest.fixture
def offloader(store):
    return StoreOffloader(store, FakeCodec())


@pytest.fixture
def recall(store):
    return Recall(store)


def noise(seed: int, words: int) -> str:
    chance = random.Random(seed)
    return " ".join("".join(chance.choices("abcdefghij", k=chance.randint(3, 9))) for _ in range(words))


def session() -> list[Message]:
    return [
        said("u1", "Please repair /srv/app/http_server.py before Friday", role="user", name="user"),
        Message("a1", [Text(noise(1, 300)), Call("call_1", "Bash", '{"command": "grep -rn TokenBudget src"}')]),
        Message(
            "a2", [Result("call_1", "Bash", f"{noise(2, 300)} request {UUID} failed {noise(3, 300)}", state="error")]
        ),
        said("a3", "结论：数据库连接失败，需要重试。"),
        Message(
            "a4", [Hint([Text("budget is 4711 euros")], source="alice"), Data(Source(url="file:///x.png", type="url"))]
        ),
    ]


async def search(recall, query, *, tokens=400, **kwargs):
    return await recall.search("s", query, limit_tokens=tokens, ruler=RULER, **kwargs)


async def read(recall, reference, *, tokens=400, **kwargs):
    return await recall.read("s", reference, limit_tokens=tokens, ruler=RULER, **kwargs)


@pytest.mark.asyncio
@pytest.mark.row("X2")
@pytest.mark.parametrize(
    ("query", "where", "who"),
    [
        ("http_server.py", "context#1", "user"),
        ("/srv/app/http_server.py", "context#1", "user"),
        ("the http server", "context#1", "user"),
        (UUID, "context#3", "result of Bash (call_1), error"),
        (UUID[9:23], "context#3", "result of Bash (call_1), error"),
        ("what happened to request " + UUID + "?", "context#3", "result of Bash (call_1), error"),
        ("token budget grep", "context#2", "assistant bob, call of Bash (call_1)"),
        ("okenBudg", "context#2", "assistant bob, call of Bash (call_1)"),
        ("数据库", "context#4", "assistant bob"),
        ("连接失败", "context#4", "assistant bob"),
        ("4711", "context#5", "hint from alice"),
    ],
)
async def test_the_first_hit_is_where_it_was_said_and_by_whom(recall, offloader, query, where, who):
    await offloader.offload_context("s", session())
    answer = await search(recall, query)
    first = answer.partition("\n")[0]
    assert re.fullmatch(rf'1\. reference="{where}" offset=\d+ of \d+ characters, {re.escape(who)}', first)


@pytest.mark.asyncio
@pytest.mark.row("X2")
async def test_a_needle_inside_one_very_long_line_is_found_and_read_round_its_place(recall, offloader):
    line = "x" * 300_000 + "NEEDLE" + "y" * 300_000
    await offloader.offload_tool_result("s", Result("call_7", "Bash", line))
    answer = await search(recall, "needle")
    assert "NEEDLE" in answer
    [place] = re.findall(r'reference="tool_result-call_7.txt" offset=(\d+) of 600006', answer)
    page = await read(recall, "tool_result-call_7.txt", offset=int(place), limit=200)
    assert "NEEDLE" in page
    assert f"characters {place} to {int(place) + 200} of 600006" in page


@pytest.mark.asyncio
async def test_what_comes_later_is_found_too_and_only_that_is_read_from_the_store(recall, offloader, store):
    await offloader.offload_context("s", session())
    await search(recall, "anything")
    fetched = []
    real = store.get

    async def get(reference, offset=0, length=None):
        data = await real(reference, offset, length)
        fetched.append(len(data))
        return data

    store.get = get
    await offloader.offload_context("s", [said("a9", "the launch code is zx81")])
    assert "zx81" in await search(recall, "zx81")
    assert sum(fetched) < 400


@pytest.mark.asyncio
async def test_a_new_recall_on_the_same_store_finds_the_same(recall, offloader, store):
    await offloader.offload_context("s", session())
    assert await search(recall, UUID) == await search(Recall(store), UUID)


@pytest.mark.asyncio
async def test_nothing_of_another_session_is_found_or_read(recall, offloader, store):
    await offloader.offload_context("t", [said("secret", "the password is swordfish")])
    foreign = await offloader.offload_tool_result("t", Result("call_9", "Bash", "swordfish"))
    await offloader.offload_context("s", session())
    assert "swordfish" not in (await search(recall, "swordfish")).replace("'swordfish'", "")
    for reference in (foreign, store.reference("t"), "secret", "call_9", "tool_result-call_9.txt"):
        answer = await read(recall, reference)
        assert answer.startswith("Nothing is stored under")
        assert "context#1" in answer


@pytest.mark.asyncio
async def test_every_form_of_a_reference_is_understood(recall, offloader, store):
    log = await offloader.offload_context("s", session())
    blob = await offloader.offload_tool_result("s", Result("call_1", "Bash", "output of the tool"))
    for reference in (
        blob,
        f" '{blob}' ",
        "tool_result-call_1.txt",
        "tool_result-call_1",
        "call_1",
        "s/tool_result-call_1.txt",
    ):
        assert "output of the tool" in await read(recall, reference)
    for reference in (log, "context", "context.jsonl", "sessions/s/context.jsonl", "s3://bucket/s/context.jsonl"):
        assert "Please repair" in await read(recall, reference)
    for reference in (f"{log}#4", "context#4", "#4", "a3"):
        assert "数据库" in await read(recall, reference)


@pytest.mark.asyncio
async def test_pages_put_together_are_the_whole(recall, offloader, store):
    text = noise(5, 2000) + "é数据" * 100
    await offloader.offload_tool_result("s", Result("c", "Bash", text))
    whole, offset = "", 0
    while True:
        page = await read(recall, "c", offset=offset, tokens=300)
        head, _, body = page.partition("\n")
        whole += body
        following = re.search(r"offset=(\d+)\)", head)
        if not following:
            break
        assert int(following[1]) == len(whole)
        offset = int(following[1])
    assert whole == text
    assert (await read(recall, "c", offset=-10)).endswith(text[-10:])
    assert "this is the end" in await read(recall, "c", offset=10**9)


@pytest.mark.asyncio
async def test_all_messages_read_as_one_text(recall, offloader):
    await offloader.offload_context("s", session())
    whole, offset = "", 0
    for _ in range(200):
        head, _, body = (await read(recall, "context", offset=offset, tokens=500)).partition("\n")
        whole += body
        offset = len(whole)
        if "this is the end" in head:
            break
    assert whole.startswith("[user]\nPlease repair")
    assert f"request {UUID} failed" in whole
    assert whole.index("TokenBudget") < whole.index(UUID) < whole.index("数据库") < whole.index("4711")


@pytest.mark.asyncio
async def test_more_hits_than_fit_are_paged_without_gaps(recall, offloader):
    await offloader.offload_context(
        "s", [said(f"m{number}", f"alpha number {number:03} {noise(number, 30)}") for number in range(30)]
    )
    seen: list[str] = []
    for _ in range(40):
        answer = await search(recall, "alpha", skip=len(seen), tokens=250)
        seen += re.findall(r'^\d+\. reference="(context#\d+)"', answer, re.MULTILINE)
        assert f"of 30{';' if len(seen) == 30 else '; next'}" in answer
        if len(seen) == 30:
            break
        assert f"skip={len(seen)})" in answer
    assert sorted(seen) == sorted(f"context#{number}" for number in range(1, 31))
    assert "No more hits" in await search(recall, "alpha", skip=30)


@pytest.mark.asyncio
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.one_of(
        st.text(max_size=80),
        st.text(st.sampled_from("\"'*()^:-+%_\\~{} ANDORNTE\x00ab数\ud800"), max_size=40),
        st.sampled_from(
            ['"', "a OR", "NOT", "NEAR(a b)", "col:x", "^a*", "%", "_", "\\", "'; DROP TABLE docs;--", "x" * 5000]
        ),
    ),
    tokens=st.integers(1, 300),
    mode=st.sampled_from(["auto", "words", "literal"]),
)
async def test_no_query_raises_and_no_answer_is_over_its_budget(query, tokens, mode):
    store = MemoryStore()
    await StoreOffloader(store, FakeCodec()).offload_context("s", session())
    recall = Recall(store)
    assert await RULER.count(await search(recall, query, tokens=tokens, mode=mode)) <= tokens
    assert await RULER.count(await read(recall, query, tokens=tokens)) <= tokens
    assert await RULER.count(await read(recall, "context", offset=len(query), tokens=tokens)) <= tokens


@pytest.mark.asyncio
async def test_a_session_that_was_deleted_is_forgotten_and_begun_anew(recall, offloader, store):
    await offloader.offload_context("s", session())
    await offloader.offload_tool_result("s", Result("c", "Bash", "swordfish"))
    assert "swordfish" in await search(recall, "swordfish")
    await store.delete("s")
    assert "No hits" in await search(recall, "swordfish")
    assert "nothing has been stored" in await read(recall, "c")
    await offloader.offload_context("s", [said("n1", "a new beginning")])
    assert 'reference="context#1"' in await search(recall, "beginning")
    recall.forget("s")
    assert 'reference="context#1"' in await search(recall, "beginning")


@pytest.mark.asyncio
async def test_the_same_text_is_shown_once(recall, offloader):
    await offloader.offload_context("s", [said(f"m{number}", "the same words") for number in range(5)])
    assert "hits 1 to 1 of 1" in await search(recall, "same words")


@pytest.mark.asyncio
async def test_concurrent_searches_agree(recall, offloader):
    await offloader.offload_context("s", session())
    answers = await asyncio.gather(*(search(recall, UUID) for _ in range(8)))
    assert len(set(answers)) == 1


@pytest.mark.asyncio
async def test_without_fts5_words_and_ids_are_still_found(offloader, store, monkeypatch):
    class NoFts(sqlite3.Connection):
        def execute(self, sql, *args):
            if "fts5" in sql:
                raise sqlite3.OperationalError("no such module: fts5")
            return super().execute(sql, *args)

    connect = sqlite3.connect
    monkeypatch.setattr(index.sqlite3, "connect", lambda name, **kwargs: connect(name, factory=NoFts, **kwargs))
    await offloader.offload_context("s", session())
    recall = Recall(store)
    for query in (UUID, "repair Friday", "数据库"):
        assert "1. reference=" in await search(recall, query)


@pytest.mark.asyncio
async def test_records_of_others_and_damaged_ones_are_read_as_far_as_they_go(tmp_path):
    folder = tmp_path / "sessions" / "s"
    await asyncio.to_thread(folder.mkdir, parents=True)
    rows = [
        {"id": "h1", "role": "user", "name": "user", "content": "typed by hand"},
        {"id": "p1", "plan": "swordfish"},
        {"content": [7, {"type": "new", "x": "novelty"}]},
    ]
    await asyncio.to_thread(
        (folder / "context.jsonl").write_text, "".join(json.dumps(row) + "\n" for row in rows) + "junk\n"
    )
    store = FileStore(tmp_path)
    await store.append("s", [Record(key="k", body='{"id":"x","content":[{"type":"text","text":"last"}]}')])
    recall = Recall(store)
    for query, where in (("by hand", 1), ("swordfish", 2), ("novelty", 3), ("last", 4)):
        assert f'reference="context#{where}"' in await search(recall, query)


def test_a_fence_names_its_nonce_at_both_ends():
    assert fence("text", "ab12") == '<recalled nonce="ab12">\ntext\n</recalled nonce="ab12">'


@pytest.mark.asyncio
async def test_an_excerpt_shows_what_follows_where_the_words_of_the_query_stand_together(recall, offloader):
    rows = [{"file": f"module_{n}.py", "lines": 900 + n, "digest": f"{n:016x}"} for n in range(40)]
    await offloader.offload_context("s", [Message("a1", [Result("c", "Bash", json.dumps(rows))])])
    assert f'"module_17.py", "lines": 917, "digest": "{17:016x}"' in await search(recall, "module_17.py digest")
