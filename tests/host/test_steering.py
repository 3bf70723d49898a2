"""Seeing and steering what is done to a context, through real agents: preview, compact, explain, undo."""

from __future__ import annotations

import json

import pytest
from agentscope.state import AgentState

from ctxkit import (
    CompressionMiddleware,
    ConfigError,
    ContextConfig,
    CostConfig,
    FileStore,
    HostCodec,
    LadderConfig,
    Price,
    ResultsConfig,
    Steering,
    StoreOffloader,
    SummaryConfig,
)
from ctxkit.engine.steer.bill import bill_of_receipt
from ctxkit.testing import ScriptedModel
from tests.host.agents import (
    applied,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    summary_text,
    text_of,
    user,
)

pytestmark = pytest.mark.asyncio
PRICE = Price(cached=0.1, written=1.25, output=5, input_usd=3.0, source="made for this test")
SUMMARIZE = LadderConfig(rungs=("summarize",))


def config(**sections):
    sections.setdefault("cost", CostConfig(price=PRICE))
    return ContextConfig(ladder=sections.pop("ladder", SUMMARIZE), **sections)


def steered(*, turns=12, offloader=None, size=300, **kwargs):
    """Return an agent with a past, its model and its handle."""
    model = kwargs.pop("model", None) or ScriptedModel(context_size=16_000)
    agent = make_agent(model, offloader=offloader or memory_offloader(), **{"config": config(), **kwargs})
    agent.state.context.extend(history(turns, size=size))
    return agent, model, Steering.of(agent)


def seen(state):
    """Return context and summary as JSON; usage is left out, for what a summary cost stays booked."""
    dumped = json.loads(state.model_dump_json())
    return [{k: v for k, v in message.items() if k != "usage"} for message in dumped["context"]], dumped["summary"]


@pytest.mark.row("X12")
async def test_a_preview_changes_nothing_and_shows_what_becomes_of_each_message():
    agent, _, steering = steered()
    before = seen(agent.state)
    preview = await steering.preview()
    assert seen(agent.state) == before
    shown = dict.fromkeys(fate.message_id for fate in preview.fates)
    assert list(shown) == [message.id for message in agent.state.context]
    kinds = [fate.what for fate in preview.fates]
    gone = kinds.count("summarised")
    assert kinds == ["summarised"] * gone + ["kept"] * (len(kinds) - gone)
    assert 0 < gone < len(kinds)
    assert all(fate.rule == "summarize" and fate.reason for fate in preview.fates[:gone])
    assert preview.tokens_after < preview.tokens_before
    assert preview.summary
    assert json.loads(json.dumps(preview.to_json()))["fates"][0]["what"] == "summarised"


@pytest.mark.row("X12")
@pytest.mark.parametrize(("turns", "size"), [(6, 500), (12, 300), (30, 100)])
async def test_applying_shows_the_tokens_and_the_money_of_the_preview_and_makes_no_second_summary(turns, size):
    agent, model, steering = steered(turns=turns, size=size)
    preview = await steering.preview(focus="the numbers")
    receipt = await steering.compact(focus="the numbers")
    assert receipt.outcome == "applied"
    assert receipt.plan_id == preview.plan_id
    assert len(model.summary_requests) == 1
    assert receipt.tokens_before == pytest.approx(preview.tokens_before, rel=0.01)
    assert receipt.tokens_after == pytest.approx(preview.tokens_after, rel=0.01)
    bill = bill_of_receipt(PRICE, receipt)
    money, shown = bill.to_json(), preview.bill.to_json()
    assert money.pop("source") == shown.pop("source") == PRICE.source
    assert money == pytest.approx(shown, rel=0.01)
    assert summary_text(agent) == preview.summary


@pytest.mark.row("X12")
async def test_a_preview_without_a_draft_asks_no_model_and_leaves_no_plan():
    agent, model, steering = steered()
    preview = await steering.preview(draft=False)
    assert preview.is_estimate
    assert preview.plan_id is None
    assert "summarised" in {fate.what for fate in preview.fates}
    assert model.requests == []
    receipt = await steering.compact()
    assert receipt.tokens_after == pytest.approx(preview.tokens_after, rel=0.25)
    assert preview.bill.steps_to_pay >= 1
    assert agent.state.summary


@pytest.mark.row("X12")
async def test_a_preview_says_which_blocks_are_shortened_and_what_stands_there_then():
    results = ResultsConfig(limit_ratio=0.01)
    agent, _, steering = steered(config=config(results=results, ladder=LadderConfig(rungs=("shrink",))))
    preview = await steering.preview()
    short = [fate for fate in preview.fates if fate.what == "shortened"]
    assert short
    assert all(0 < fate.tokens_after < fate.tokens_before for fate in short)
    assert sum(fate.tokens_after for fate in preview.fates) < sum(fate.tokens_before for fate in preview.fates)
    before = seen(agent.state)
    receipt = await steering.compact()
    assert receipt.tokens_after == pytest.approx(preview.tokens_after, rel=0.01)
    told = await steering.explain(short[0].message_id)
    assert told.where == "shortened"
    assert told.touched[0].reference
    assert (await steering.undo()).blocks == len(short)
    assert seen(agent.state) == before


@pytest.mark.row("X12")
async def test_nothing_to_do_is_said_with_its_reason():
    agent, model, steering = steered(turns=0)
    agent.state.context.append(user("Good morning."))
    preview = await steering.preview()
    receipt = await steering.compact()
    assert (preview.plan_id, preview.bill) == (None, None)
    assert preview.why
    assert receipt.outcome == "unneeded"
    assert receipt.why
    assert [fate.what for fate in preview.fates] == ["kept"]
    assert model.requests == []


@pytest.mark.row("X12")
async def test_a_message_that_left_is_explained_by_its_plan_its_rule_and_its_place_also_after_a_restart(tmp_path):
    agent, _, steering = steered(offloader=StoreOffloader(FileStore(tmp_path), HostCodec()))
    old = agent.state.context[1]
    receipt = await steering.compact()
    saved = agent.state.model_dump_json()
    handles = [steering, Steering(AgentState.model_validate_json(saved), store=FileStore(tmp_path))]
    for handle in handles:
        for item in (old.id, old.content[0].id, old.content[-1].id):
            told = await handle.explain(item)
            assert (told.where, told.message_id) == ("summary", old.id)
            assert [touch.plan_id for touch in told.touched] == [receipt.plan_id]
            assert (told.touched[0].rule, told.touched[0].part) == ("summarize", 1)
            assert told.touched[0].is_stored
            assert "part 1" in told.why
    assert (await steering.explain(agent.state.context[-1].id)).where == "context"
    assert (await steering.explain("no such id")).where == "unknown"
    assert json.dumps(told.to_json())


@pytest.mark.row("X12")
async def test_a_compression_is_taken_back_by_a_new_process_from_the_saved_state(tmp_path):
    agent, _, steering = steered(offloader=StoreOffloader(FileStore(tmp_path), HostCodec()))
    before = seen(agent.state)
    receipt = await steering.compact()
    assert seen(agent.state) != before
    state = AgentState.model_validate_json(agent.state.model_dump_json())
    handle = Steering(state, store=FileStore(tmp_path))
    undone = await handle.undo()
    assert (undone.outcome, undone.plan_id) == ("undone", receipt.plan_id)
    assert seen(state) == before
    assert "taken back" in (await handle.undo(receipt.plan_id)).why
    told = await handle.explain(state.context[0].id)
    assert told.where == "context"
    assert [touch.is_undone for touch in told.touched] == [True]


@pytest.mark.row("X12")
async def test_an_agent_goes_on_behind_a_compression_that_was_taken_back_and_is_not_compressed_again_at_once():
    model = ScriptedModel(
        [*fetches(14, size=600), "read", "still here", *fetches(3, size=900), "done"], context_size=16_000
    )
    agent, _, steering = steered(
        turns=0, model=model, config=config(trigger_ratio=0.5, summary=SummaryConfig(prepare=False))
    )
    await agent.reply(user("Look all of it up."))
    receipts = applied(agent)
    assert receipts
    undone = await steering.undo()
    assert undone.outcome == "undone"
    assert undone.tokens_after > undone.tokens_before
    await agent.reply(user("Are you there?"))
    assert len(applied(agent)) == len(receipts)
    assert number_of("topic-5") in text_of(agent.state.context)


@pytest.mark.row("X12")
async def test_only_the_newest_compression_is_taken_back_and_the_reason_names_it():
    agent, _, steering = steered()
    first = await steering.compact()
    agent.state.context.extend(history(12, prefix="new"))
    between = seen(agent.state)
    second = await steering.compact()
    refused = await steering.undo(first.plan_id)
    assert refused.outcome == "refused"
    assert second.plan_id in refused.why
    assert (await steering.undo("no-such-plan")).outcome == "refused"
    assert (await steering.undo(second.plan_id)).outcome == "undone"
    assert seen(agent.state) == between
    assert (await steering.undo(first.plan_id)).outcome == "undone"
    assert agent.state.summary == ""


@pytest.mark.row("X12")
async def test_undoing_is_refused_where_what_was_stored_no_longer_joins():
    agent, _, steering = steered()
    await steering.compact()
    agent.state.context.pop(0)
    after = seen(agent.state)
    refused = await steering.undo()
    assert refused.outcome == "refused"
    assert "not where the compression left it" in refused.why
    assert seen(agent.state) == after


@pytest.mark.row("X12")
async def test_undoing_is_refused_where_the_request_would_not_fit():
    agent, _, steering = steered(turns=40)
    await steering.compact()
    agent.model.context_size = 4_000
    refused = await steering.undo()
    assert refused.outcome == "refused"
    assert "fit" in refused.why


@pytest.mark.row("X12")
async def test_undoing_is_refused_without_a_store_and_where_its_records_are_gone(tmp_path):
    agent, _, steering = steered(offloader=StoreOffloader(FileStore(tmp_path), HostCodec()))
    await steering.compact()
    state = AgentState.model_validate_json(agent.state.model_dump_json())
    assert "store" in (await Steering(state).undo()).why
    assert "not in the store" in (await Steering(state, store=memory_offloader()).undo()).why


async def test_a_secret_stays_replaced_and_its_message_is_named():
    agent, _, steering = steered()
    secret = "ghp_" + "a1B2" * 9
    agent.state.context[0].content[0].text += f" The token is {secret}."
    leaves = agent.state.context[0].id
    await steering.compact()
    undone = await steering.undo()
    assert undone.redacted == (leaves,)
    assert secret not in agent.state.model_dump_json()


async def test_a_handle_of_a_state_has_no_model_and_says_so():
    agent, _, _ = steered()
    handle = Steering(agent.state, store=memory_offloader())
    with pytest.raises(ConfigError, match="no model"):
        await handle.preview()
    with pytest.raises(ConfigError, match="no model"):
        await handle.compact()
    assert handle.pins() == ()


async def test_an_agent_without_the_middleware_is_refused():
    agent = make_agent(ScriptedModel(), middlewares=[])
    with pytest.raises(ConfigError, match="CompressionMiddleware"):
        Steering(agent)
    middleware = CompressionMiddleware()
    assert middleware.steering(make_agent(ScriptedModel(), middlewares=[middleware])).pins() == ()


async def test_a_store_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="give a store"):
        Steering(AgentState(), store=object())
