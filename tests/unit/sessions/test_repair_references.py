"""References that name nothing any more are told, and only those."""

from __future__ import annotations

import pytest

from ctxkit.errors import StoreReadError
from ctxkit.offload import MemoryStore
from ctxkit.sessions.repair import dangling_references
from tests.unit.fakes import agent, call, result, text

pytestmark = pytest.mark.asyncio


async def a_store() -> tuple[MemoryStore, str]:
    store = MemoryStore()
    return store, await store.put("s", "tool_result-a.txt", b"all of it")


def shortened(reference: str):
    short = result("a", "cut")
    short.metadata = {"ctxkit": {"shortened": True, "reference": reference}}
    return agent(call("a"), short, reply_id="m1")


async def test_a_result_whose_reference_names_nothing_is_told():
    store, reference = await a_store()

    assert await dangling_references([shortened(reference)], "", store) == []
    [repair] = await dangling_references([shortened("gone"), shortened("gone")], "", store)

    assert (repair.kind, repair.message_id, repair.block_id) == ("dangling_reference", "m1", "gone")
    assert "'gone'" in repair.what


async def test_the_stubs_of_a_summary_are_looked_up_each():
    store, reference = await a_store()
    stub = f"Part 1: 3 messages, 40 tokens, stored in {reference!r}, 'gone-1', \"gone'2\" and 4 other places; search_context"

    for summary in (stub, [text(stub)]):
        found = await dangling_references([], summary, store)
        assert [repair.block_id for repair in found] == ["gone-1", "gone'2"]


async def test_a_store_that_cannot_be_read_makes_no_reference_a_dangling_one():
    class Broken(MemoryStore):
        async def get(self, reference, offset=0, length=None):
            raise StoreReadError("down")

    assert await dangling_references([shortened("x")], "", Broken()) == []
