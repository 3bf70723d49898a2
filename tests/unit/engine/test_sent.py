"""What a warm summary call extends: the request that was sent, word for word, and what has been finished since."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.engine.kit import Kit
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.port import Request
from ctxkit.tokens import ByteCounter
from tests.unit.fakes import FakeCodec, FakeMsg, FakePort, agent, call, result, step, text, user

pytestmark = pytest.mark.asyncio

REPLY = "reply-1"


def a_kit(*context: FakeMsg) -> tuple[Kit, FakePort]:
    model = SimpleNamespace(key="fake:model", context_size=100_000)
    port = FakePort(model=model, context=list(context), reply_id=REPLY)
    codec = FakeCodec()
    guard = OffloadGuard(StoreOffloader(MemoryStore(), codec), codec=codec, timeout_s=5)
    return Kit(port, codec, counter=ByteCounter(), guard=guard), port


async def send(kit: Kit, *more: FakeMsg, **keywords: Any) -> Request:
    request = await kit.port.request()
    request = Request(messages=[*request.messages, *more], tools=[{"name": "tool"}], **keywords)
    await kit.sent.keep(kit.sent.seen(request))
    return request


def blocks_of(messages: Any) -> list[Any]:
    return [block for message in messages for block in message.content]


async def extended(kit: Kit) -> Request:
    return kit.sent.extended(await kit.port.request(), kit.view())


async def test_without_a_request_sent_the_one_of_now_is_extended():
    kit, port = a_kit(user("Hello."), agent("Hi.", reply_id=REPLY))

    assert list((await extended(kit)).messages[1:]) == port.context


async def test_the_running_message_goes_on_as_the_host_would_send_it():
    kit, port = a_kit(user("Go."), agent(*step("c1"), reply_id=REPLY))
    await send(kit)
    port.context[-1].content.extend(step("c2"))

    messages = (await extended(kit)).messages

    assert messages[-1] == port.context[-1]
    assert len(messages) == 3


@pytest.mark.parametrize("is_sent", [True, False], ids=["sent", "not sent"])
@pytest.mark.parametrize("is_early", [True, False], ids=["before and after", "after"])
async def test_what_the_agent_does_while_a_summary_is_asked_for_gets_into_no_request_of_it(is_sent, is_early):
    kit, port = a_kit(user("Go."), agent(*step("c1"), reply_id=REPLY))
    if is_sent:
        await send(kit)
    request, view = await port.request(), kit.view()
    port.context[-1].content.extend([call("early")] if is_early else [])
    messages = kit.sent.extended(request, view).messages
    port.context[-1].content.append(call("late"))

    assert [block.id for block in blocks_of(messages) if block.type == "tool_call"] == ["c1"]


async def test_what_was_sent_behind_the_context_stays_before_what_came_since():
    kit, port = a_kit(user("Go."), agent(*step("c1"), reply_id=REPLY))
    sent = await send(kit, user("A note."))
    before = blocks_of(sent.messages)
    new = step("c2")
    port.context[-1].content.extend(new)

    assert blocks_of((await extended(kit)).messages) == [*before, *new]


async def test_tools_choice_and_keywords_are_those_that_were_sent():
    kit, port = a_kit(user("Go."))
    await send(kit, tool_choice="auto", options={"tier": "flex"})
    port.context.append(agent("Done.", reply_id=REPLY))

    request = await extended(kit)

    assert (request.tools, request.tool_choice, request.options) == ([{"name": "tool"}], "auto", {"tier": "flex"})


async def test_an_open_call_and_what_follows_it_are_left_out():
    kit, port = a_kit(user("Go."), agent(*step("c1"), reply_id=REPLY))
    await send(kit)
    port.context[-1].content.extend([*step("c2"), call("c3"), call("c4"), result("c4")])

    ids = [block.id for block in blocks_of((await extended(kit)).messages) if block.type == "tool_call"]

    assert ids == ["c1", "c2"]


async def test_an_edited_context_is_taken_as_it_is_now():
    kit, port = a_kit(user("Go."), agent(*step("c1"), reply_id=REPLY))
    await send(kit, user("A note."))
    port.context = [port.context[0], agent("Cleared.", reply_id=REPLY)]

    assert list((await extended(kit)).messages[1:]) == port.context


async def test_a_request_that_was_not_sent_whole_is_not_extended():
    kit, port = a_kit(user("Go."))
    await send(kit, user("A note."))
    kit.sent.forget()

    assert list((await extended(kit)).messages[1:]) == port.context


async def test_a_view_from_before_the_last_request_is_in_it_already():
    kit, port = a_kit(user("Go."), agent(*step("c1"), reply_id=REPLY))
    early = kit.view()
    port.context[-1].content.extend(step("c2"))
    port.context.append(user("And now?"))
    sent = await send(kit)

    request = kit.sent.extended(await port.request(), early)

    assert blocks_of(request.messages) == blocks_of(sent.messages)


@given(
    before=st.integers(0, 4),
    since=st.integers(0, 4),
    notes=st.integers(0, 2),
    says=st.booleans(),
    asks=st.booleans(),
)
async def test_all_that_was_sent_comes_first_and_all_that_came_since_behind_it(before, since, notes, says, asks):
    numbers = iter(range(100))
    steps = [block for _ in range(before) for block in step(f"c{next(numbers)}")]
    kit, port = a_kit(user("Go."), agent(*steps, reply_id=REPLY))
    sent = await send(kit, *(user(f"Note {n}.") for n in range(notes)))
    first = blocks_of(sent.messages)
    new = [block for _ in range(since) for block in step(f"c{next(numbers)}")]
    new += [text("So.")] if says else []
    port.context[-1].content.extend(new)
    if asks:
        port.context.append(user("And?"))
        new = [*new, *port.context[-1].content]

    assert blocks_of((await extended(kit)).messages) == [*first, *new]
