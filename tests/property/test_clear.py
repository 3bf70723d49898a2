"""A context that its user cleared is empty but for calls in flight, and all of it comes back."""

from __future__ import annotations

import asyncio

from hypothesis import assume, given
from hypothesis import strategies as st

from ctxkit.errors import ContextUnfitError
from ctxkit.host.steering import Steering
from ctxkit.invariants import pairs_whole, unfinished_kept
from ctxkit.offload import MemoryStore
from ctxkit.view import View
from tests.property.contexts import AGENT, Context
from tests.property.test_undo import anything, config_of, engine_of, many, policies, seen, state_of


@many
@given(anything, policies, st.sampled_from(["", "An earlier summary by hand."]))
def test_clearing_leaves_calls_in_flight_alone_and_taking_it_back_gives_the_context_of_before(
    context: Context, policy, summary: str
):
    async def scenario() -> None:
        state, store = state_of(context, summary), MemoryStore()
        before, there = seen(state), context.view()
        engine = engine_of(state, store, policy.context_size)
        try:
            receipt = await engine.steer.clear(config_of(policy))
        except ContextUnfitError:
            # What waits for a person is larger than the window: nothing is touched.
            assert seen(state) == before
            assume(False)
            return
        if receipt.outcome == "unneeded":
            assert not summary
            assert not any(there.contents) or there.unfinished
            return
        assert (receipt.outcome, receipt.problems) == ("applied", ())
        after = View(state.context, agent_name=AGENT, reply_id=state.reply_id)
        assert pairs_whole(there, after) == unfinished_kept(there, after) == []
        waiting = {exchange.call_id for exchange in there.unfinished}
        assert waiting or not any(after.contents)
        assert summary == "" or summary not in str(seen(state)[1])
        undone = await Steering(state, store=store).undo(receipt.plan_id)
        assert (undone.outcome, undone.why) == ("undone", "")
        assert seen(state) == before

    asyncio.run(scenario())
