"""Steering may be cancelled or fail at any moment: the agent is as before or as after, says so, and a retry works."""

from __future__ import annotations

import asyncio

import pytest
from agentscope.state import AgentState

from ctxkit import ContextConfig, HostCodec, LadderConfig, MemoryStore, Steering, StoreError, StoreOffloader
from ctxkit.engine.layer import Layers
from ctxkit.engine.steer.keep import newest_change
from tests.host.agents import history, make_agent, orphans, receipts, text_of
from tests.host.test_cancel import MOST_TICKS, Slow, cancelled_at
from tests.host.test_steering import seen

pytestmark = pytest.mark.asyncio
TURNS = 8
RULE = "Answer in Flemish."


class Shaky(MemoryStore):
    """A store that takes a few turns of the event loop for everything, and fails in one of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.fails_at = 0

    async def _turn(self) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            msg = "the store is down"
            raise StoreError(msg)
        for _ in range(2):
            await asyncio.sleep(0)

    async def append(self, *args, **kwargs):
        await self._turn()
        return await super().append(*args, **kwargs)

    async def get(self, *args, **kwargs):
        await self._turn()
        return await super().get(*args, **kwargs)

    async def list(self, *args, **kwargs):
        await self._turn()
        async for entry in super().list(*args, **kwargs):
            yield entry


def an_agent():
    """Return an agent with a past, on a slow store, and its handle."""
    agent = make_agent(
        Slow(context_size=16_000),
        offloader=StoreOffloader(Shaky(), HostCodec()),
        config=ContextConfig(ladder=LadderConfig(rungs=("summarize",))),
    )
    agent.state.context.extend(history(TURNS, size=200))
    return agent, Steering.of(agent)


async def check(agent, steering, oldest: str, *, is_compressed: bool) -> None:
    """Check that slot, summary layer and records say the same, and nothing still runs."""
    engine = await steering._engine()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert orphans(agent.state.context) == []
    assert Layers(engine).lost_digest() is None
    assert (newest_change(engine.port.slot) is not None) == is_compressed
    assert (oldest not in {message.id for message in agent.state.context}) == is_compressed
    assert bool(agent.state.summary) == is_compressed
    assert (await steering.explain(oldest)).where == ("summary" if is_compressed else "context")


@pytest.mark.row("X12")
async def test_an_undo_that_is_cancelled_in_any_turn_leaves_before_or_after_and_a_retry_works():
    tick, outcomes = 0, set()
    while "done" not in outcomes:
        tick += 1
        assert tick < MOST_TICKS
        agent, steering = an_agent()
        oldest, before = agent.state.context[0].id, seen(agent.state)
        receipt = await steering.compact()
        after = seen(agent.state)
        task, _ = await cancelled_at(tick, steering.undo)
        is_undone = seen(agent.state) == before
        assert is_undone or seen(agent.state) == after
        outcomes.add("done" if not task.cancelled() else "undone" if is_undone else "as it was")
        await check(agent, steering, oldest, is_compressed=not is_undone)
        if is_undone:
            assert "taken back already" in (await steering.undo(receipt.plan_id)).why
        else:
            assert (await steering.undo(receipt.plan_id)).outcome == "undone"
        assert seen(agent.state) == before
        await check(agent, steering, oldest, is_compressed=False)
        assert (await steering.compact()).outcome == "applied"
    assert outcomes == {"done", "undone", "as it was"}


@pytest.mark.parametrize("has_preview", [True, False])
async def test_a_compaction_that_is_cancelled_in_any_turn_leaves_before_or_after_and_a_retry_works(has_preview):
    tick, outcomes = 0, set()
    while "done" not in outcomes:
        tick += 1
        assert tick < MOST_TICKS
        agent, steering = an_agent()
        oldest, before = agent.state.context[0].id, seen(agent.state)
        preview = await steering.preview() if has_preview else None
        task, _ = await cancelled_at(tick, steering.compact)
        is_compressed = seen(agent.state) != before
        outcomes.add("done" if not task.cancelled() else "after" if is_compressed else "before")
        await check(agent, steering, oldest, is_compressed=is_compressed)
        if not is_compressed:
            receipt = await steering.compact()
            assert receipt.outcome == "applied"
            if preview is not None:
                assert receipt.plan_id == preview.plan_id
        assert len(agent.model.summary_requests) == 1 or not has_preview
        assert (await steering.undo()).outcome == "undone"
        assert seen(agent.state) == before
        await check(agent, steering, oldest, is_compressed=False)
    assert outcomes == {"done", "after", "before"}


async def test_a_preview_that_is_cancelled_in_any_turn_changes_nothing_and_a_retry_works():
    tick, is_over = 0, False
    while not is_over:
        tick += 1
        assert tick < MOST_TICKS
        agent, steering = an_agent()
        oldest, before = agent.state.context[0].id, seen(agent.state)
        task, _ = await cancelled_at(tick, steering.preview)
        is_over = not task.cancelled()
        assert seen(agent.state) == before
        await check(agent, steering, oldest, is_compressed=False)
        preview = await steering.preview()
        receipt = await steering.compact()
        assert (receipt.plan_id, receipt.tokens_after) == (preview.plan_id, preview.tokens_after)
        await check(agent, steering, oldest, is_compressed=True)


@pytest.mark.row("X10")
@pytest.mark.parametrize("what", ["text", "message"])
async def test_a_pin_that_is_cancelled_in_any_turn_is_there_or_is_not(what):
    tick, outcomes = 0, set()
    while "done" not in outcomes:
        tick += 1
        assert tick < MOST_TICKS
        agent, steering = an_agent()
        item = RULE if what == "text" else agent.state.context[0]
        task, _ = await cancelled_at(tick, lambda steering=steering, item=item: steering.pin(item))
        pins = steering.pins()
        outcomes.add("done" if not task.cancelled() else "before")
        assert [pin.where for pin in pins] in ([], ["context"])
        assert (RULE in text_of(agent.state.context)) == (what == "text" and bool(pins))
        if not pins:
            assert (await steering.pin(item)).where == "context"
        assert len(steering.pins()) == 1
    assert outcomes == {"done", "before"}


async def test_whatever_call_of_the_store_fails_an_undo_is_refused_or_done_and_a_retry_works():
    outcomes, call = [], 0
    while not outcomes or outcomes[-1] != "no call left":
        call += 1
        agent, steering = an_agent()
        store = agent.offloader.store
        oldest, before = agent.state.context[0].id, seen(agent.state)
        await steering.compact()
        after = seen(agent.state)
        store.calls, store.fails_at = 0, call
        undone = await steering.undo()
        outcomes.append("no call left" if store.calls < call else undone.outcome)
        store.fails_at = 0
        assert seen(agent.state) == (before if undone.outcome == "undone" else after)
        await check(agent, steering, oldest, is_compressed=undone.outcome == "refused")
        if undone.outcome == "refused":
            assert undone.why
            assert (await steering.undo()).outcome == "undone"
        elif outcomes[-1] == "undone":
            assert undone.problems
            assert "not in force" in (await steering.undo(undone.plan_id)).why
        assert seen(agent.state) == before
        assert (await steering.compact()).outcome == "applied"
    assert {"refused", "undone"} <= set(outcomes)


async def test_whatever_call_of_the_store_fails_what_is_compressed_can_be_taken_back_or_the_refusal_says_why():
    call, whys, is_over = 0, [], False
    while not is_over:
        call += 1
        agent, steering = an_agent()
        store = agent.offloader.store
        before = seen(agent.state)
        store.calls, store.fails_at = 0, call
        try:
            receipt = await steering.compact()
        except StoreError:
            assert seen(agent.state) == before
            continue
        is_over = store.calls < call
        store.fails_at = 0
        undone = await steering.undo()
        whys.append(undone.why)
        assert (undone.outcome == "undone") == (seen(agent.state) == before)
        assert undone.outcome == "undone" or receipt.problems
    assert any(whys)
    assert not all(whys)


async def test_a_state_that_was_saved_before_an_undo_is_as_it_was_then_though_the_store_says_that_it_was_taken_back():
    agent, steering = an_agent()
    oldest, before = agent.state.context[0].id, seen(agent.state)
    receipt = await steering.compact()
    saved, after = agent.state.model_dump_json(), seen(agent.state)
    await steering.undo()
    state = AgentState.model_validate_json(saved)
    handle = Steering(state, store=agent.offloader)
    assert seen(state) == after
    told = await handle.explain(oldest)
    assert (told.where, [touch.is_undone for touch in told.touched]) == ("summary", [False])
    assert (await handle.undo(receipt.plan_id)).outcome == "undone"
    assert seen(state) == before
    assert receipts(agent)[-1] == receipt
