"""Everything that reaches the wire is weighed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ctxkit.tokens import BlockScale, ContentClass, Weight, default_counter
from ctxkit.tokens.blocks import CALL_FRAME_TOKENS, HINT_FRAME_TOKENS, MESSAGE_FRAME_TOKENS, RESULT_FRAME_TOKENS
from tests.unit.tokens.samples import (
    Block,
    WordCounter,
    call_block,
    data_block,
    json_rows,
    message,
    png,
    result_block,
    text_block,
)

ONE_WORD_OF_PROSE = Weight.of({ContentClass.PROSE: 1})


@pytest.fixture
def scale() -> BlockScale:
    return BlockScale(default_counter())


@pytest.mark.asyncio
async def test_a_call_weighs_name_id_arguments_and_framing(scale: BlockScale) -> None:
    counter = default_counter()
    block = call_block('{"path": "/srv/app/main.py"}', id="call_5Yk2pQ")

    weight = await scale.weigh_block(block)

    assert weight[ContentClass.FRAME] == CALL_FRAME_TOKENS + counter.count("call_5Yk2pQ") + counter.count("Read")
    assert weight.total - weight[ContentClass.FRAME] == counter.count(block.input)


@pytest.mark.asyncio
async def test_a_result_weighs_id_name_texts_media_and_framing(scale: BlockScale) -> None:
    counter = default_counter()
    block = result_block([text_block("done"), data_block(png(300, 250), "image/png"), text_block("done")], id="c1")

    weight = await scale.weigh_block(block)

    assert weight[ContentClass.FRAME] == RESULT_FRAME_TOKENS + counter.count("c1") + counter.count("Read")
    assert weight[ContentClass.MEDIA] == 100
    assert weight[ContentClass.PROSE] == 2 * counter.count("done")


@pytest.mark.asyncio
async def test_a_plain_result_weighs_as_the_same_in_a_block(scale: BlockScale) -> None:
    text = json_rows(1, 3000)

    assert await scale.weigh_block(result_block(text)) == await scale.weigh_block(result_block([text_block(text)]))


@pytest.mark.asyncio
async def test_a_hint_is_framed_as_the_message_it_becomes(scale: BlockScale) -> None:
    block = Block(type="hint", hint="hello", source=None)

    assert await scale.weigh_block(block) == ONE_WORD_OF_PROSE + Weight.of({ContentClass.FRAME: HINT_FRAME_TOKENS})


@pytest.mark.asyncio
async def test_thinking_is_a_class_of_its_own_also_where_it_is_encrypted(scale: BlockScale) -> None:
    plain = await scale.weigh_block(Block(type="thinking", thinking="hello"))
    redacted = await scale.weigh_block(Block(type="thinking", thinking="", redacted_thinking_data="x" * 600))

    assert plain == Weight.of({ContentClass.THINKING: 1})
    assert redacted == Weight.of({ContentClass.THINKING: 100})


@pytest.mark.asyncio
async def test_a_message_is_its_blocks_name_and_framing(scale: BlockScale) -> None:
    weight = await scale.weigh_message(message(text_block("hello"), text_block("hello"), name="user"))

    assert weight == Weight.of({ContentClass.PROSE: 2, ContentClass.FRAME: MESSAGE_FRAME_TOKENS + 1})


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("block", "total"),
    [
        (Block(type="citation", text="hello"), 1),
        (Block(type="later", content=[text_block("hello"), Block(type="x")]), 1),
        (Block(type="blob", payload=b"123"), 0),
        (object(), 0),
        (Block(type="text", text=None), 0),
        (Block(type="tool_call", id=None, name=None, input=None), CALL_FRAME_TOKENS),
    ],
)
async def test_an_unknown_or_broken_block_weighs_the_texts_it_has(scale: BlockScale, block: Any, total: int) -> None:
    assert (await scale.weigh_block(block)).total == total


@pytest.mark.asyncio
async def test_tools_weigh_their_json_and_an_equal_list_is_not_dumped_again() -> None:
    counter = WordCounter()
    scale = BlockScale(counter)
    tools = [{"type": "function", "function": {"name": f"schema {i} of this test"}} for i in range(3)]

    first = await scale.weigh_tools(tools)
    asked = len(counter.calls)
    again = await scale.weigh_tools([json.loads(json.dumps(tool)) for tool in tools])

    assert asked == 3
    assert (first, len(counter.calls)) == (again, asked)
    assert first[ContentClass.JSON] == first.total


@pytest.mark.asyncio
async def test_a_schema_changed_in_place_is_weighed_again() -> None:
    scale = BlockScale(WordCounter())
    tools: list[dict[str, Any]] = [{"name": "a", "description": "one"}]
    before = await scale.weigh_tools(tools)
    tools[0]["description"] = "one two three"

    assert (await scale.weigh_tools(tools)).total == before.total + 2


@pytest.mark.asyncio
async def test_a_schema_that_is_no_json_does_not_raise(scale: BlockScale) -> None:
    assert (await scale.weigh_tools([{"name": "a", "default": object(), "type": int}])).total > 0
