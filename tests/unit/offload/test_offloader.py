import asyncio
import base64
import copy
import gc
import json
import time
from hashlib import sha256

import pytest

from ctxkit.offload import BLOB, FileStore, MemoryStore, Recall, StoreOffloader, lines, read_records

from .fakes import Call, Data, FakeCodec, FourCharRuler, Hint, Message, Result, Source, Text, said

PICTURE = b"\x89PNG" + bytes(range(256)) * 300
NAME = f"{sha256(PICTURE).hexdigest()}.png"


def picture(name: str | None = "shot") -> Data:
    return Data(Source(data=base64.b64encode(PICTURE).decode()), name=name)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def offloader(store):
    return StoreOffloader(store, FakeCodec())


async def bodies(store, session="s"):
    entries = [entry async for entry in store.list(session) if entry.kind != BLOB]
    return [json.loads(lines.unseal(data).body) async for _, data in read_records(store, entries)]


@pytest.mark.asyncio
@pytest.mark.row("A8")
async def test_messages_are_stored_whole_once_and_under_the_logs_reference(store, offloader):
    msgs = [said("m1", "hello", role="user"), said("m2", "world")]
    reference = await offloader.offload_context("s", msgs, anything="else")
    assert reference == store.reference("s") == await offloader.offload_context("s", msgs=msgs)
    assert [body["id"] for body in await bodies(store)] == ["m1", "m2"]
    assert (await bodies(store))[1]["content"] == [{"text": "world", "type": "text"}]


@pytest.mark.asyncio
async def test_a_message_that_grew_is_stored_again(store, offloader):
    await offloader.offload_context("s", [said("m1", "hello")])
    await offloader.offload_context("s", [said("m1", "hello and more")])
    assert [body["content"][0]["text"] for body in await bodies(store)] == ["hello", "hello and more"]


@pytest.mark.asyncio
async def test_storing_nothing_is_no_error(offloader):
    assert await offloader.offload_context("s", [])


@pytest.mark.asyncio
@pytest.mark.row("A10")
async def test_media_is_stored_once_wherever_it_stands_and_what_was_passed_is_unchanged(store, offloader):
    message = Message(
        "m1",
        [
            picture(),
            Result("c1", "Shot", [Text("see"), picture("other")]),
            Result("c2", "Read", "text only"),
            Hint([Text("look"), picture()]),
            Hint("plain"),
            Call("c1", "Shot", "{}"),
            Data(Source(url="https://example.org/x.png", type="url")),
        ],
    )
    before = copy.deepcopy(message)
    await offloader.offload_context("s", [message])
    assert message == before
    [body] = await bodies(store)
    url = f"memory:///data/{NAME}"
    top, result, _, hint, *_ = body["content"]
    assert [top["source"]["url"], result["output"][1]["source"]["url"], hint["hint"][1]["source"]["url"]] == [url] * 3
    assert base64.b64encode(PICTURE).decode() not in json.dumps(body)
    assert await store.get(url) == PICTURE


@pytest.mark.asyncio
async def test_a_tool_result_is_stored_as_text_with_notes_for_media(store, offloader):
    result = Result("c1", "Shot", [Text("before "), picture(), Text(" after é\ud800")])
    reference = await offloader.offload_tool_result("s", result)
    assert reference.endswith("/tool_result-c1.txt")
    note = f"<data url='memory:///data/{NAME}' name='shot' media_type='image/png'/>"
    assert await store.get(reference) == f"before {note} after é\\ud800".encode()


@pytest.mark.asyncio
async def test_results_of_one_call_id_never_replace_each_other(store, offloader):
    first = await offloader.offload_tool_result("s", Result("c1", "Bash", "one"))
    second = await offloader.offload_tool_result("s", Result("c1", "Bash", "two"))
    assert first == await offloader.offload_tool_result("s", Result("c1", "Bash", "one"))
    assert (await store.get(first), await store.get(second)) == (b"one", b"two")


@pytest.mark.asyncio
@pytest.mark.parametrize("media_type", ["image/../../x", "", "nonsense", "image/png; x=../y"])
async def test_a_hostile_media_type_names_no_path(offloader, media_type):
    stored = await offloader.offload_data_block(Data(Source(media_type=media_type, data="aGVsbG8=")))
    assert stored.source.url == f"memory:///data/{sha256(b'hello').hexdigest()}.bin"


@pytest.mark.asyncio
async def test_base64_with_line_breaks_is_decoded_and_what_is_no_base64_is_kept_as_it_is(store, offloader):
    wrapped = await offloader.offload_data_block(Data(Source(data="aGVs\nbG8=\n")))
    assert await store.get(wrapped.source.url) == b"hello"
    broken = await offloader.offload_data_block(Data(Source(data="a")))
    assert await store.get(broken.source.url) == b"a"


@pytest.mark.asyncio
async def test_a_url_block_comes_back_as_it_is(offloader):
    block = Data(Source(url="https://example.org/x.png", type="url"))
    assert await offloader.offload_data_block(block) is block


@pytest.mark.asyncio
async def test_eight_thousand_messages_and_a_big_result_do_not_hold_the_loop(tmp_path):
    offloader = StoreOffloader(FileStore(tmp_path), FakeCodec())
    msgs = [said(f"m{number}", "x" * 500) for number in range(8000)]
    result = Result("c1", "Bash", "é" * 5_000_000)
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            begun = time.thread_time()  # of this thread alone: a busy machine is not our doing
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begun)

    gc.disable()  # a collection over what all tests have left behind is not our doing either
    heart = asyncio.create_task(beat())
    await offloader.offload_context("s", msgs)
    await offloader.offload_tool_result("s", result)
    answer = await Recall(offloader.store).search("s", "xxx", limit_tokens=200, ruler=FourCharRuler())
    heart.cancel()
    gc.enable()
    assert answer.startswith("1. ")
    assert longest < 0.05
