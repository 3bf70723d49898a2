"""What a repair promises of every context, however it was left behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from agentscope.formatter import AnthropicChatFormatter, OpenAIChatFormatter
from agentscope.message import AssistantMsg, HintBlock, Msg, SystemMsg, ToolCallBlock, ToolResultBlock, UserMsg
from agentscope.state import AgentState
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ctxkit.host._codec import HostCodec
from ctxkit.sessions.repair import Repaired, repair_context
from ctxkit.sessions.repair.pairing import segments
from tests.property.contexts import AGENT, Context, contexts
from tests.property.wire import anthropic_refusals, openai_refusals

pytestmark = pytest.mark.row("O15")

many = settings(max_examples=100, deadline=None)
LAYERS = [SystemMsg(name="system", content="Be kind."), UserMsg(name="user", content="<summary>Once.</summary>")]


@st.composite
def wrecked(draw: st.DrawFn) -> Context:
    """Draw a context from which blocks were lost, and in which others moved or stand twice, also across messages."""
    context = draw(contexts(hostile=True))
    messages = [message.model_copy(update={"content": list(message.content)}) for message in context.messages]
    speakers = [message for message in messages if message.role == "assistant"]
    for _ in range(draw(st.integers(0, 4)) if speakers else 0):
        source, target = draw(st.sampled_from(speakers)), draw(st.sampled_from(speakers))
        if source.content:
            at = draw(st.integers(0, len(source.content) - 1))
            action = draw(st.sampled_from(["lose", "move", "copy", "hollow"]))
            block = source.content[at] if action == "copy" else source.content.pop(at)
            if action == "hollow" and block.type == "tool_call":
                source.content.insert(at, block.model_copy(update=draw(st.sampled_from([{"name": ""}, {"input": ""}]))))
            elif action in {"move", "copy"}:
                target.content.insert(draw(st.integers(0, len(target.content))), block)
    return Context(messages=messages, reply_id=context.reply_id)


def repaired(context: Context, *, is_running: bool = False) -> Repaired:
    return repair_context(
        context.messages, agent_name=AGENT, reply_id=context.reply_id, codec=HostCodec(), is_running=is_running
    )


def again(outcome: Repaired, context: Context) -> Repaired:
    return repaired(Context(messages=list(outcome.messages), reply_id=context.reply_id))


def open_calls(messages: Sequence[Msg]) -> set[str]:
    """Return the ids of the calls that AgentScope itself takes to be waiting."""
    state = AgentState(context=list(messages))
    if not state.has_awaiting_tool_calls(AGENT):
        return set()
    answered = {block.id for block in messages[-1].content if block.type == "tool_result"}
    return {b.id for b in messages[-1].content if b.type == "tool_call" and b.id not in answered}


def blocks(messages: Iterable[Msg]) -> Counter[str]:
    """Count what stands in messages; ids and states of calls and results, which a repair may change, are left out."""
    changeable = {"tool_call": {"id", "state"}, "tool_result": {"id"}}
    return Counter(
        block.model_dump_json(exclude=changeable.get(block.type)) for message in messages for block in message.content
    )


def asked_for_again() -> Context:
    """Return a reply in which a call that waits for its user has the id of a later one that was answered."""
    waits, again = (ToolCallBlock(id="call_27", name="search", input="{}", state="asking") for _ in range(2))
    answer = ToolResultBlock(id="call_27", name="search", output="found", state="success")
    content = [waits, HintBlock(hint="Go on."), again, answer]
    return Context(messages=[AssistantMsg(AGENT, content=content, id="reply0")], reply_id="reply0")


@many
@given(wrecked())
@example(asked_for_again())
def test_each_call_has_its_one_result_behind_it_in_its_message(context: Context):
    messages = repaired(context).messages
    waiting_for_a_person = open_calls(messages)
    for number, message in enumerate(messages):
        assert message.content
        unanswered: Counter[str] = Counter()
        for block in message.content:
            if block.type == "tool_call":
                assert block.id
                assert block.name
                unanswered[block.id] += 1
            elif block.type == "tool_result":
                assert unanswered[block.id] == 1
                unanswered[block.id] = 0
        left = {call_id for call_id, calls in unanswered.items() if calls}
        assert left <= (waiting_for_a_person if number == len(messages) - 1 else set())
    assert len({message.id for message in messages}) == len(messages)


def without_pictures(message: Msg) -> Msg:
    """Leave out the pictures of results: AgentScope up to 2.0.8 sends one of a parallel result amid the others."""
    content = [
        block.model_copy(update={"output": [piece for piece in block.output if piece.type == "text"]})
        if block.type == "tool_result" and not isinstance(block.output, str)
        else block
        for block in message.content
    ]
    return message.model_copy(update={"content": content})


@many
@given(wrecked())
def test_openai_and_anthropic_take_what_was_repaired(context: Context):
    messages = [without_pictures(message) for message in repaired(context).messages]
    waiting = open_calls(messages)
    if waiting:
        content = messages[-1].content
        first = next(n for n, block in enumerate(content) if block.type == "tool_call" and block.id in waiting)
        # AgentScope takes no further step while a call waits: the answer is put at the end of its message.
        assume(len(set(list(segments(content))[first:])) == 1)
        called = [block for block in content if block.type == "tool_call" and block.id in waiting]
        come = [ToolResultBlock(id=block.id, name=block.name, output="ok") for block in called]
        messages[-1] = messages[-1].model_copy(update={"content": [*content, *come]})
    openai = asyncio.run(OpenAIChatFormatter().format([*LAYERS, *messages]))
    anthropic = asyncio.run(AnthropicChatFormatter().format([*LAYERS, *messages]))
    assert [*openai_refusals(openai), *anthropic_refusals(anthropic)] == []


@many
@given(wrecked(), st.booleans())
def test_a_repair_leaves_nothing_to_repair(context: Context, is_running: bool):
    outcome = repaired(context, is_running=is_running)
    once_more = repair_context(
        outcome.messages, agent_name=AGENT, reply_id=context.reply_id, codec=HostCodec(), is_running=is_running
    )
    assert once_more.repairs == ()
    assert all(a is b for a, b in zip(once_more.messages, outcome.messages, strict=True))


@many
@given(wrecked())
def test_what_was_not_touched_is_the_very_same_object(context: Context):
    outcome = repaired(context)
    told = {repair.message_id for repair in outcome.repairs}
    before = {id(message) for message in context.messages}
    changed = [message for message in outcome.messages if id(message) not in before]
    if not outcome.repairs:
        assert [id(m) for m in outcome.messages] == [id(m) for m in context.messages]
        assert not outcome.dropped
    assert len(changed) <= 2 * len(outcome.repairs)
    assert told or not changed


@many
@given(wrecked())
def test_nothing_vanishes_without_being_handed_out(context: Context):
    outcome = repaired(context)
    before, after = blocks(context.messages), blocks([*outcome.messages, *outcome.dropped])
    added = sum(repair.kind == "missing_result" for repair in outcome.repairs)
    assert before - after == Counter()
    assert (after - before).total() == added
    ids = {message.id for message in context.messages}
    assert ids <= {message.id for message in (*outcome.messages, *outcome.dropped)}


@many
@given(contexts())
def test_a_reply_that_waits_or_runs_is_left_as_it_is(context: Context):
    is_parked = bool(open_calls(context.messages))
    outcome = repaired(context, is_running=not is_parked)
    if context.messages and context.messages[-1].id == context.reply_id:
        tail = context.messages[-1]
        asks = any(b.type == "tool_call" and b.state == "asking" for b in tail.content)
        if not asks and not any(b.type == "tool_call" and b.state == "finished" for b in tail.content):
            assert outcome.messages[-1] is tail
        assert outcome.messages[-1].id == tail.id
        assert open_calls(outcome.messages) <= open_calls(context.messages)
