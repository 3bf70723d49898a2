"""Edits that bring their own text: the original is stored first, and what is stored already keeps its place."""

from __future__ import annotations

import pytest

from ctxkit.engine.kit import Kit
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.plan import Edit, EditKind
from ctxkit.tokens import ByteCounter
from ctxkit.view import Place, View
from tests.unit.fakes import FakeCodec, FakeMsg, FakePort, agent, call, image, result, settings, text
from tests.unit.summary.fakes import FakeModel

LONG = "a line of some words\n" * 40


def edit(kind: EditKind, words: str) -> Edit:
    return Edit(kind=kind, message=0, message_id="m", start=1, stop=2, tokens=200, keep_tokens=20, text=words)


def kit(offloader: object | None) -> Kit:
    codec = FakeCodec()
    guard = OffloadGuard(offloader, codec=codec, timeout_s=5)
    return Kit(FakePort(model=FakeModel()), codec, counter=ByteCounter(), guard=guard)


async def replaced(message: FakeMsg, change: Edit, offloader: object | None):
    return await kit(offloader).shortener(settings(), "m").carry_out(View([message]), [change])


@pytest.mark.asyncio
async def test_a_cleared_result_keeps_its_id_and_names_where_its_original_is():
    store = MemoryStore()
    done = await replaced(
        agent(call("a"), result("a", [text(LONG), image()])),
        edit(EditKind.CLEAR, "[gone: {reference}]"),
        StoreOffloader(store, FakeCodec()),
    )
    block = done.replacements[Place(0, 1)]
    mark = block.metadata["ctxkit"]
    assert (block.id, block.name, block.state) == ("a", "tool", "success")
    assert block.output == f'[gone: read_context(reference="{mark["reference"]}")]'
    assert (mark["cleared"], mark["admitted"], done.edits[0].reference) == (True, True, mark["reference"])
    assert LONG in (await store.get(mark["reference"], 0, 5000)).decode()


@pytest.mark.asyncio
async def test_a_result_that_was_shortened_before_keeps_its_reference():
    short = result("a", LONG)
    short.metadata = {"ctxkit": {"shortened": True, "reference": "there"}}
    done = await replaced(agent(call("a"), short), edit(EditKind.CLEAR, "[{reference}]"), None)
    assert done.replacements[Place(0, 1)].metadata["ctxkit"]["reference"] == "there"


@pytest.mark.asyncio
async def test_without_an_offloader_a_cleared_result_says_that_it_is_not_stored():
    done = await replaced(agent(call("a"), result("a", LONG)), edit(EditKind.CLEAR, "[gone: {reference}]"), None)
    assert done.replacements[Place(0, 1)].output == "[gone: not stored]"


@pytest.mark.asyncio
async def test_a_shrunk_result_keeps_its_images_and_its_own_braces():
    done = await replaced(
        agent(call("a"), result("a", [text(LONG), image("BBBB")])), edit(EditKind.SHRINK, "use {reference}"), None
    )
    words, picture = done.replacements[Place(0, 1)].output
    assert (words.text, picture.source.data) == ("use {reference}", "BBBB")


@pytest.mark.asyncio
async def test_a_text_that_is_no_shorter_is_not_put_in():
    done = await replaced(agent(call("a"), result("a", "ok")), edit(EditKind.CLEAR, "[a longer line]"), None)
    assert (done.edits, done.replacements) == ((), {})
