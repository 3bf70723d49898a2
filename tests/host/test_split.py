"""What stays and what leaves: the reserve, whole pairs, parked replies, and the user's newest request."""

import pytest
from agentscope.event import (
    ConfirmResult,
    ExternalExecutionResultEvent,
    RequireExternalExecutionEvent,
    RequireUserConfirmEvent,
    UserConfirmResultEvent,
)
from agentscope.message import AssistantMsg, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock
from agentscope.tool import FunctionTool

from ctxkit import CompressionMiddleware, ContextConfig
from ctxkit.testing import ScriptedModel, call, tokenizer
from tests.host.agents import (
    applied,
    events_of,
    exchange,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    receipts,
    summary_text,
    text_of,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

CL100K = tokenizer("cl100k")
WINDOW = 8192
LOW = ContextConfig(trigger_ratio=0.2, reserve_ratio=0.1)
"""A one-off config that compresses now."""


def a_model(*script, **settings) -> ScriptedModel:
    return ScriptedModel(script, context_size=WINDOW, enforce="cl100k", **settings)


def an_agent(model=None, **settings):
    return make_agent(model or a_model(), offloader=memory_offloader(), **settings)


def apart(number: int, *, size: int = 300, parallel: int = 1) -> list:
    """Return a step of an imported transcript: calls in one message, results in messages of their own."""
    made = [call("fetch", topic=f"far-{number}-{i}", size=size) for i in range(parallel)]
    messages = [AssistantMsg(name="importer", content=list(made))]
    for i, one in enumerate(made):
        result = ToolResultBlock(id=one.id, name="fetch", output=[TextBlock(text=fetch(f"far-{number}-{i}", size))])
        messages.append(AssistantMsg(name="importer", content=[result]))
    return messages


def kept_ids(agent) -> list[str]:
    return [block.id for message in agent.state.context for block in message.content if block.type == "tool_result"]


# The reserve (row A3)


@pytest.mark.row("A3")
@pytest.mark.parametrize("reserve", [0.1, 0.2, 0.3])
async def test_the_reserve_is_spent_on_messages_however_large_the_fixed_overhead(reserve):
    agent = an_agent(prompt=words(int(0.25 * WINDOW)))
    agent.state.context.extend(history(12))
    config = ContextConfig(trigger_ratio=0.6, reserve_ratio=reserve)

    await agent.compress_context(context_config=config)

    [receipt] = applied(agent)
    kept = CL100K(text_of(agent.state.context))
    assert receipt.messages_compressed > 0
    assert 0.5 * reserve * WINDOW <= kept <= 1.1 * reserve * WINDOW + 40


@pytest.mark.row("A3")
async def test_more_stays_with_a_larger_reserve():
    kept = []
    for reserve in (0.05, 0.15, 0.3):
        agent = an_agent()
        agent.state.context.extend(history(16))
        await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.6, reserve_ratio=reserve))
        kept.append(len(agent.state.context))

    assert kept == sorted(set(kept))


@pytest.mark.row("A3", "A5")
async def test_what_leaves_and_what_stays_are_the_whole_context_each_part_once():
    agent = an_agent()
    agent.state.context.extend(history(10))
    before = text_of(agent.state.context)

    await agent.compress_context(context_config=LOW)

    reference = applied(agent)[0].reference
    stored = (await agent.offloader.store.get(reference)).decode()
    kept = text_of(agent.state.context)
    for i in range(10):
        number = f"its number is {number_of(f'old-{i}')}"
        assert number in before
        assert (number in stored) != (number in kept)


# Pairs (rows A3 and D11)


@pytest.mark.row("A3", "D11")
@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("reserve", [0.05, 0.1, 0.15])
async def test_calls_and_results_in_separate_messages_never_part(parallel, reserve):
    agent = an_agent()
    for number in range(12 // parallel):
        agent.state.context.extend(apart(number, size=200 + 17 * number, parallel=parallel))
    agent.state.context.append(user("What came out?"))

    await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.2, reserve_ratio=reserve))

    assert len(applied(agent)) == 1
    assert orphans(agent.state.context) == []


@pytest.mark.row("A3", "D11")
async def test_parallel_calls_of_one_step_stay_or_leave_together():
    steps = [[call("fetch", topic=f"p-{i}-{k}", size=120) for k in range(4)] for i in range(10)]
    model = a_model(*steps, "done")
    agent = an_agent(model)

    await agent.reply(user("Look up forty topics, four at a time."))

    assert applied(agent)
    ids = set(kept_ids(agent))
    assert orphans(agent.state.context) == []
    assert all(ids.isdisjoint(step_ids) or ids >= step_ids for step_ids in ({c.id for c in step} for step in steps))


@pytest.mark.row("A3", "D11")
async def test_messages_of_other_agents_between_part_no_pair():
    agent = an_agent()
    for number, message in enumerate(history(10, size=250)):
        agent.state.context.append(message)
        agent.state.context.append(AssistantMsg(name="bob", content=f"Bob says {number}. {words(30)}"))
        agent.state.context.append(AssistantMsg(name="carol", content=[*exchange(number, size=40, prefix="carol")]))

    await agent.compress_context(context_config=LOW)

    assert len(applied(agent)) == 1
    assert orphans(agent.state.context) == []


@pytest.mark.row("A3", "D11")
async def test_an_imported_transcript_goes_on_with_the_agents_own_calls():
    model = a_model(*fetches(20), "All found.")
    agent = an_agent(model)
    for number in range(8):
        agent.state.context.extend([user(f"Far question {number}?"), *apart(number)])

    await agent.reply(user("Look up twenty more."))

    assert len(applied(agent)) >= 1
    assert orphans(agent.state.context) == []
    assert not any(request.refused for request in model.requests)
    assert all(orphans(request.messages) == [] for request in model.chats)


@pytest.mark.row("A3")
async def test_thinking_stays_with_its_calls():
    steps = [[ThinkingBlock(thinking=f"I need {i}. {words(20)}"), each] for i, each in enumerate(fetches(25))]
    agent = an_agent(a_model(*steps, "done"))

    await agent.reply(user("Look up 25 topics."))

    assert applied(agent)
    content = [block.type for block in agent.state.context[-1].content if block.type != "hint"]
    assert content[0] == "thinking"
    assert content.count("thinking") == content.count("tool_call")


# Replies that are parked (rows A3 and D11)


def dangerous(what: str) -> str:
    """Do something that a person must allow.

    Args:
        what (str): What to do.
    """
    return f"Did {what}."


def asking_tools():
    return [fetch, FunctionTool(dangerous)]


def external_tool():
    def ask_human(question: str) -> str:
        """Ask a human.

        Args:
            question (str): The question.
        """

    tool = FunctionTool(ask_human, is_read_only=True)
    tool.is_external_tool = True
    return tool


@pytest.mark.row("A3", "D11")
@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_call_that_waits_for_a_person_survives_a_compression_and_goes_on(confirmed):
    asked = call("dangerous", what="the deed")
    model = a_model(*fetches(10), asked, *fetches(20, prefix="more"), "All done.")
    agent = an_agent(model, tools=asking_tools())
    events = await events_of(agent.reply_stream(user("Look up, do the deed, look up.")))
    [question] = [event for event in events if isinstance(event, RequireUserConfirmEvent)]
    reply_id = agent.state.reply_id

    await agent.compress_context(context_config=LOW)

    assert receipts(agent)[-1].outcome == "applied"
    assert [block.id for block in agent.state.get_awaiting_tool_calls("scribe")] == [asked.id]
    assert agent.state.context[-1].id == reply_id

    answer = UserConfirmResultEvent(
        reply_id=reply_id, confirm_results=[ConfirmResult(confirmed=confirmed, tool_call=question.tool_calls[0])]
    )
    await events_of(agent.reply_stream(answer))

    assert len(model.chats) == 32
    assert agent.state.reply_id == reply_id
    assert orphans(agent.state.context) == []
    assert "All done." in text_of(agent.state.context)
    said = text_of(message for request in model.chats for message in request.messages)
    assert ("Did the deed." in said) == confirmed


@pytest.mark.row("A3", "D11")
async def test_a_call_that_is_executed_elsewhere_survives_a_compression_and_takes_its_result():
    asked = call("ask_human", question="Which colour?")
    model = a_model(*fetches(10), [*fetches(1, prefix="beside"), asked], "Blue it is.")
    agent = an_agent(model, tools=[fetch, external_tool()])
    events = await events_of(agent.reply_stream(user("Look up, then ask.")))
    assert any(isinstance(event, RequireExternalExecutionEvent) for event in events)

    await agent.compress_context(context_config=LOW)

    assert receipts(agent)[-1].outcome == "applied"
    assert [block.id for block in agent.state.get_awaiting_tool_calls("scribe")] == [asked.id]
    result = ToolResultBlock(id=asked.id, name="ask_human", output=[TextBlock(text="Blue.")], state="success")
    await events_of(
        agent.reply_stream(ExternalExecutionResultEvent(reply_id=agent.state.reply_id, execution_results=[result]))
    )

    assert orphans(agent.state.context) == []
    assert "Blue." in text_of(model.chats[-1].messages)


@pytest.mark.row("A3", "D11")
async def test_a_parked_state_survives_a_restart_and_a_compression():
    asked = call("dangerous", what="the deed")
    agent = an_agent(a_model(*fetches(10), asked), tools=asking_tools())
    await events_of(agent.reply_stream(user("Look up and do the deed.")))
    saved = agent.state.model_dump_json()

    later = an_agent(a_model("All done."), tools=asking_tools(), state=type(agent.state).model_validate_json(saved))
    await later.compress_context(context_config=LOW)
    [parked] = later.state.get_awaiting_tool_calls("scribe")
    await events_of(
        later.reply_stream(
            UserConfirmResultEvent(
                reply_id=later.state.reply_id, confirm_results=[ConfirmResult(confirmed=True, tool_call=parked)]
            )
        )
    )

    assert applied(later)
    assert orphans(later.state.context) == []
    assert "Did the deed." in text_of(later.state.context)


# The newest request (rows A3 and X10)


@pytest.mark.row("A3", "X10")
@pytest.mark.parametrize("window", [4096, 8192, 16384])
async def test_the_newest_user_request_stays_verbatim_in_small_windows(window):
    request = f"Please look all of it up, and mind this: {words(250, seed='request')}. Thank you!"
    model = ScriptedModel([*fetches(80, size=200), "done"], context_size=window, enforce="cl100k")
    agent = make_agent(model, offloader=memory_offloader(), prompt=words(300))

    await agent.reply(user(request))

    assert applied(agent)
    assert all(request in text_of(each.messages[1:]) for each in model.chats)
    assert not any(each.refused for each in model.requests)


@pytest.mark.row("A3", "X10")
async def test_a_request_in_several_messages_stays_whole():
    model = ScriptedModel([*fetches(30, size=200), "done"], context_size=WINDOW, enforce="cl100k")
    agent = an_agent(model)
    parts = [user(f"Part {i} of what I want: {words(15, seed=str(i))}.") for i in range(3)]

    await agent.reply(parts)

    assert applied(agent)
    assert [text_of([message]) for message in agent.state.context[:3]] == [text_of([part]) for part in parts]


@pytest.mark.row("X10")
async def test_an_earlier_request_is_compressed_but_its_words_stay_in_the_live_request():
    model = a_model("fine", *fetches(25), "done")
    agent = an_agent(model)
    await agent.reply(user("My name is Ada and you must never use the word banana."))

    await agent.reply(user("Look up 25 topics."))

    assert applied(agent)
    assert all("must never use the word banana" in text_of(each.messages) for each in model.chats)
    assert "My name is Ada" not in text_of(agent.state.context)
    assert "My name is Ada" in summary_text(agent)


@pytest.mark.row("A3")
async def test_an_unfinished_call_that_a_crash_left_behind_does_not_block_compression():
    agent = an_agent()
    lost = ToolCallBlock(id="lost", name="fetch", input='{"topic": "lost"}')
    agent.state.context.extend([user("First?"), AssistantMsg(name="scribe", content=[lost]), *history(12)])

    await agent.compress_context(context_config=LOW)

    assert len(applied(agent)) == 1
    assert orphans(agent.state.context) == []


@pytest.mark.row("A3")
async def test_a_second_compression_right_behind_the_first_changes_nothing():
    agent = an_agent(middlewares=[CompressionMiddleware()])
    agent.state.context.extend(history(12))
    await agent.compress_context(context_config=LOW)
    after_first = (list(agent.state.context), agent.state.summary)

    await agent.compress_context(context_config=LOW)

    assert (list(agent.state.context), agent.state.summary) == after_first
