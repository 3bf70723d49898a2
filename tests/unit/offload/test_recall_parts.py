"""A message that left its context in parts is read and found as one, and what tells of compressions is not in the way."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.offload import MESSAGE, MemoryStore, Recall, Record, StoreOffloader
from ctxkit.offload.chain import PLAN, SUMMARY

from .fakes import Call, FakeCodec, FourCharRuler, Message, Result, said

RULER = FourCharRuler()
BLOCKS = [
    block
    for number in range(4)
    for block in (
        Call(f"c{number}", "Bash", f'{{"command": "step {number}"}}'),
        Result(f"c{number}", "Bash", f"output NR-{number} of the step"),
    )
]


async def stored(*messages):
    store = MemoryStore()
    for message in messages:
        await StoreOffloader(store, FakeCodec()).offload_context("s", [message])
    return Recall(store)


def part(start, stop):
    return Message("m1", BLOCKS[start:stop])


async def read(recall, reference, **kwargs):
    answer = await recall.read("s", reference, limit_tokens=4000, ruler=RULER, **kwargs)
    return answer.partition("\n")[2]


async def search(recall, query):
    return await recall.search("s", query, limit_tokens=400, ruler=RULER)


@pytest.mark.asyncio
@pytest.mark.row("X1")
async def test_a_message_that_left_in_two_parts_reads_as_one():
    whole = await read(await stored(part(0, 8)), "m1")

    in_parts = await stored(said("m0", "before"), part(0, 4), said("m2", "between"), part(4, 8))

    assert await read(in_parts, "m1") == whole
    assert await read(in_parts, "context#2") != whole


@pytest.mark.asyncio
async def test_a_hit_in_a_part_names_the_message_and_which_part_it_is():
    recall = await stored(part(0, 4), said("m2", "between"), part(4, 8))

    answer = await search(recall, "NR-3")

    assert 'reference="context#3"' in answer
    assert 'part 2 of 2 of message "m1"' in answer
    assert "part " not in await search(recall, "between")


@pytest.mark.asyncio
@pytest.mark.parametrize("offset", [0, 1, 60, 150, 300])
async def test_a_page_of_a_message_in_parts_begins_and_ends_where_it_is_asked_to(offset):
    recall = await stored(part(0, 2), part(2, 5), part(5, 8))
    whole = await read(recall, "m1")

    assert await read(recall, "m1", offset=offset, limit=90) == whole[offset : offset + 90]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8)).filter(lambda cut: cut[0] < cut[1]), max_size=4))
def test_what_was_stored_twice_is_read_once_however_the_parts_overlap(cuts):
    async def texts():
        # A crash behind the store leaves a part that a later, longer one repeats; the rest always comes last.
        whole = await read(await stored(part(0, 8)), "m1")
        starts = [(0, stop) for _, stop in sorted(cuts, key=lambda cut: cut[1])]
        return whole, await read(await stored(*(part(*cut) for cut in starts), part(0, 8)), "m1")

    whole, in_parts = asyncio.run(texts())
    assert in_parts == whole


@pytest.mark.asyncio
async def test_blocks_without_an_id_are_never_taken_for_one_another():
    recall = await stored(said("m1", "one"), said("m1", "two"))

    assert [line for line in (await read(recall, "m1")).splitlines() if line][1::2] == ["one", "two"]


@pytest.mark.asyncio
async def test_plans_and_summaries_are_neither_found_nor_read_with_the_messages():
    store = MemoryStore()
    recall = Recall(store)
    for number, kind in enumerate([MESSAGE, PLAN, SUMMARY, MESSAGE, SUMMARY], 1):
        text = f'"role": "user", "name": "u", "content": "heron {number}"' if kind == MESSAGE else '"draft": "heron"'
        await store.append("s", [Record(key=f"k{number}", body=f'{{"id": "m{number}", {text}}}', kind=kind)])
        answer = await search(recall, "heron")  # the index follows, whatever comes last

    assert "(hits 1 to 2 of 2;" in answer
    assert [line for line in (await read(recall, "context")).splitlines() if line] == [
        "[user u]",
        "heron 1",
        "[user u]",
        "heron 4",
    ]
