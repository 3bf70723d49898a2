"""Steering beside what else goes on: other handles, compressions, preparations, plans that only clear, hostile ids."""

from __future__ import annotations

import asyncio

import pytest
from agentscope.state import AgentState

from ctxkit import (
    ConfigError,
    ContextConfig,
    FileStore,
    HostCodec,
    LadderConfig,
    Steering,
    StoreOffloader,
    SummaryConfig,
    telemetry,
)
from ctxkit.engine.steer.keep import newest_change
from ctxkit.testing import ScriptedModel, plain_summary
from tests.host.agents import (
    applied,
    events_of,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    text_of,
    user,
)
from tests.host.test_cancel import Slow
from tests.host.test_steering import SUMMARIZE, config, seen, steered

pytestmark = pytest.mark.asyncio
HOSTILE = ["", ":", "tool_call:", "../../etc/passwd", "a:b", "\x00", "%", "*", "\ud800", "x" * 5_000, "change-1", " "]


@pytest.mark.row("X12")
async def test_of_two_handles_that_undo_at_once_one_does_and_the_other_is_told_why_not():
    agent, _, one = steered()
    before = seen(agent.state)
    receipt = await one.compact()
    other = Steering.of(agent)
    undone, refused = await asyncio.gather(one.undo(receipt.plan_id), other.undo(receipt.plan_id))
    assert (undone.outcome, refused.outcome) == ("undone", "refused")
    assert "taken back already" in refused.why
    assert seen(agent.state) == before


async def test_of_two_compactions_at_once_the_second_sees_what_the_first_left():
    agent, _, one = steered(turns=24)
    before = seen(agent.state)
    receipts = await asyncio.gather(one.compact(), Steering.of(agent).compact())
    assert receipts[0].outcome == "applied"
    assert receipts[1].tokens_before <= receipts[0].tokens_before
    for _ in range(sum(receipt.outcome == "applied" for receipt in receipts)):
        assert (await one.undo()).outcome == "undone"
    assert seen(agent.state) == before


@pytest.mark.row("X12")
async def test_an_undo_waits_for_the_compression_that_runs_and_takes_that_one_back():
    gate, asked = asyncio.Event(), asyncio.Event()

    async def wait(messages):
        asked.set()
        await gate.wait()
        return plain_summary()

    agent, model, steering = steered()
    before = seen(agent.state)
    model._summaries = wait
    running = asyncio.ensure_future(steering.compact())
    await asked.wait()
    undoing = asyncio.ensure_future(steering.undo())
    await asyncio.sleep(0)
    assert not undoing.done()
    gate.set()
    receipt, undone = await running, await undoing
    assert (undone.outcome, undone.plan_id) == ("undone", receipt.plan_id)
    assert seen(agent.state) == before


@pytest.mark.row("X12")
async def test_a_preview_holds_only_while_nothing_of_what_it_rests_on_has_changed():
    async def said_more(agent, steering):
        agent.state.context.append(user("One more thing."))

    async def pinned(agent, steering):
        await steering.pin(agent.state.context[1])

    async def compressed(agent, steering):
        await agent.compress_context()
        agent.state.context.extend(history(4, prefix="new"))

    async def other_config(agent, steering):
        agent.context_config = config(summary=SummaryConfig(reminder=True))

    async def other_window(agent, steering):
        agent.model.context_size = 12_000

    for change in (said_more, pinned, compressed, other_config, other_window):
        agent, _, steering = steered(turns=16)
        await steering.preview()
        await change(agent, steering)
        before = seen(agent.state)
        receipt = await steering.compact()
        assert receipt.outcome == "applied", change
        assert all(pin.where == "context" for pin in steering.pins())
        context = {message.id for message in agent.state.context}
        assert change is not said_more or agent.state.context[-1].content[0].text == "One more thing."
        assert change is not pinned or steering.pins()[0].id in context
        assert (await steering.undo()).outcome == "undone"
        assert seen(agent.state) == before


@pytest.mark.row("X12")
async def test_a_summary_that_is_being_prepared_is_not_used_when_what_it_continues_was_taken_back():
    gate = asyncio.Event()
    asked: list[int] = []

    async def wait_for_the_second(messages):
        asked.append(len(messages))
        if len(asked) > 1:
            await gate.wait()
        return plain_summary()

    model = Slow([*fetches(40, size=300), "done"], context_size=16_000)
    agent = make_agent(
        model, offloader=memory_offloader(), config=config(trigger_ratio=0.5, summary=SummaryConfig(prepare=True))
    )
    model._summaries = wait_for_the_second
    steering = Steering.of(agent)
    agent.state.context.extend(history(6, size=200))
    before = seen(agent.state)
    assert (await steering.compact()).outcome == "applied"
    stream = agent.reply_stream(user("Look all of it up."))
    undone = None
    async for _ in stream:
        if len(asked) > 1 and undone is None:
            undone = await steering.undo()
            gate.set()
    assert undone is not None
    assert undone.outcome == "undone", undone.why
    texts = text_of(agent.state.context) + "".join(
        [
            (await agent.offloader.store.get(e.reference, e.offset, e.size)).decode()
            async for e in agent.offloader.store.list(agent.state.session_id)
        ]
    )
    assert all(number_of(f"old-{n}") in texts for n in range(6))
    assert all(number_of(f"topic-{n}") in texts for n in range(40))
    state = AgentState.model_validate_json(agent.state.model_dump_json())
    while (await Steering(state, store=agent.offloader).undo()).outcome == "undone":
        pass
    assert seen(state)[0][: len(before[0])] == before[0]


@pytest.mark.row("X12")
async def test_a_plan_that_only_clears_is_taken_back_and_what_it_cleared_is_explained_before_and_after():
    agent, _, steering = steered(config=config(ladder=LadderConfig(rungs=("clear_results",))), turns=14, size=500)
    before = seen(agent.state)
    receipt = await steering.compact()
    assert receipt.outcome == "applied", receipt
    assert receipt.summary == "none"
    cleared = next(m.content[1] for m in agent.state.context if len(m.content) > 1)
    told = await steering.explain(cleared.id)
    assert (told.where, told.touched[0].rule) == ("cleared", "clear_results")
    assert (await steering.undo()).blocks > 0
    assert seen(agent.state) == before
    assert (await steering.explain(cleared.id)).where == "context"


@pytest.mark.row("X12")
async def test_a_block_that_was_cleared_and_then_summarised_is_explained_by_both_and_comes_back_step_by_step():
    agent, _, steering = steered(config=config(ladder=LadderConfig(rungs=("clear_results",))), turns=14, size=500)
    before = seen(agent.state)
    first = await steering.compact()
    message = next(m for m in agent.state.context if len(m.content) > 1)
    call_id = message.content[1].id
    between = seen(agent.state)
    agent.context_config = config()
    second = await steering.compact()
    assert message.id not in {one.id for one in agent.state.context}
    told = await steering.explain(call_id)
    assert (told.where, told.message_id) == ("summary", message.id)
    assert [(one.plan_id, one.what) for one in told.touched] == [
        (second.plan_id, "summary"),
        (first.plan_id, "cleared"),
    ]
    assert (await steering.undo()).outcome == "undone"
    assert seen(agent.state) == between
    told = await steering.explain(call_id)
    assert (told.where, [one.is_undone for one in told.touched]) == ("cleared", [True, False])
    assert (await steering.undo()).outcome == "undone"
    assert seen(agent.state) == before
    assert (await steering.explain(call_id)).where == "context"


@pytest.mark.row("X12")
async def test_the_stream_of_the_next_reply_tells_that_a_compression_was_taken_back():
    agent, _, steering = steered(model=ScriptedModel(["hello"], context_size=16_000))
    receipt = await steering.compact()
    undone = await steering.undo()
    events = await events_of(agent.reply_stream(user("Are you there?")))
    told = [event.value for event in events if getattr(event, "name", "") == telemetry.UNDONE]
    assert [one["plan_id"] for one in told] == [receipt.plan_id]
    assert told[0]["tokens_after"] == undone.tokens_after


@pytest.mark.row("X12")
async def test_what_the_summary_cost_stays_booked_and_no_empty_message_is_left_by_it():
    agent, _, steering = steered(turns=10)
    before = seen(agent.state)
    await steering.compact()
    booked = agent.state.context[-1].usage
    assert booked.input_tokens > 0
    await steering.undo()
    assert seen(agent.state) == before
    assert agent.state.context[-1].usage == booked


@pytest.mark.row("X12")
@pytest.mark.parametrize("focus", ["the numbers", "the names"], ids=["the same", "another"])
async def test_a_preview_that_is_not_carried_out_is_booked_when_another_plan_is(focus):
    agent, model, steering = steered(turns=10)
    await steering.preview(focus="the numbers")
    await steering.preview(focus="the numbers", draft=False)
    assert agent.state.context[-1].usage is None
    receipt = await steering.compact(focus=focus)

    assert receipt.outcome == "applied"
    assert len(model.summary_requests) == 1 + (focus != "the numbers")
    spent = sum(request.input_tokens for request in model.summary_requests)
    assert agent.state.context[-1].usage.input_tokens == spent
    await steering.undo()
    assert agent.state.context[-1].usage.input_tokens == spent


async def test_previews_that_are_forgotten_one_after_the_other_are_booked_each_once():
    agent, model, steering = steered(turns=10)
    for number in range(11):
        await steering.preview(focus=f"chapter {number}")
    oldest = sum(request.input_tokens for request in model.summary_requests[:3])
    assert agent.state.context[-1].usage.input_tokens == oldest
    await steering.compact(focus="chapter 10")

    assert len(model.summary_requests) == 11
    assert agent.state.context[-1].usage.input_tokens == sum(each.input_tokens for each in model.summary_requests)


async def test_hostile_ids_are_explained_unpinned_and_undone_as_unknown():
    agent, _, steering = steered()
    agent.state.context[1].content[0].id = "a:b:c"
    agent.state.context[1].content[1].id = "a:b:c"
    await steering.compact()
    after = seen(agent.state)
    for item in [*HOSTILE, "b:c", "c"]:
        told = await steering.explain(item)
        assert (told.where, told.touched) == ("unknown", ()), item
        assert not steering.unpin(item)
        assert (await steering.undo(item)).outcome == "refused", item
    assert (await steering.explain("a:b:c")).where == "summary"
    assert seen(agent.state) == after


async def test_an_id_that_two_messages_have_does_no_harm_to_what_comes_back():
    agent, _, steering = steered()
    agent.state.context[4].id = agent.state.context[2].id
    before = seen(agent.state)
    assert (await steering.compact()).outcome == "applied"
    undone = await steering.undo()
    assert (seen(agent.state) == before) == (undone.outcome == "undone")
    assert undone.outcome == "undone" or undone.why


@pytest.mark.row("X10")
async def test_pins_and_what_is_in_force_are_the_same_for_a_process_that_goes_on_with_the_saved_state(tmp_path):
    agent, _, steering = steered(offloader=StoreOffloader(FileStore(tmp_path), HostCodec()))
    kept, text = await steering.pin(agent.state.context[2]), await steering.pin("Answer in Dutch.")
    before = seen(agent.state)
    receipt = await steering.compact()
    state = AgentState.model_validate_json(agent.state.model_dump_json())
    again = make_agent(
        ScriptedModel(["yes"], context_size=16_000),
        offloader=StoreOffloader(FileStore(tmp_path), HostCodec()),
        config=ContextConfig(ladder=SUMMARIZE),
        state=state,
    )
    handle = Steering.of(again)
    assert [(pin.id, pin.where) for pin in handle.pins()] == [(kept.id, "context"), (text.id, "context")]
    assert newest_change(state.middle_context["ctxkit"]) == receipt.plan_id
    assert (await handle.undo()).outcome == "undone"
    assert seen(state) == before
    assert [pin.where for pin in handle.pins()] == ["context", "context"]
    assert handle.unpin(text.id)
    assert [pin.id for pin in handle.pins()] == [kept.id]
    await again.reply(user("Are you there?"))
    assert applied(again) == []


@pytest.mark.row("X10")
async def test_pins_up_to_their_budget_are_kept_and_one_over_it_leaves_the_others_alone():
    agent, _, steering = steered()
    for number in range(5):
        await steering.pin(f"Rule {number}: " + "stay " * 40)
    pins, context = steering.pins(), len(agent.state.context)
    with pytest.raises(ConfigError, match="pins_share_ratio"):
        await steering.pin("And more: " + "stay " * 4_000)
    assert (steering.pins(), len(agent.state.context)) == (pins, context)
    assert (await steering.compact()).outcome == "applied"
    assert {pin.id for pin in pins} <= {message.id for message in agent.state.context}
