"""What is seen before each step, and what is remembered of it: boundaries, growth, and a cache that has gone cold."""

import json
from dataclasses import replace

import pytest

from ctxkit.config import CostConfig, Price, TriggersConfig
from ctxkit.engine import Engine
from ctxkit.engine.watch import Watch
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.plan import Reason, Receipt
from ctxkit.tokens import ByteCounter
from tests.unit.fakes import FakeCodec, FakePort, agent, call, result, settings, step, user
from tests.unit.summary.fakes import FakeModel

WINDOW = 200_000
PRICED = replace(
    settings(),
    is_ratio_explicit=False,
    is_reserve_explicit=False,
    cost=CostConfig(price=Price(cached=0.1, written=1.25, cache_minutes=5)),
    triggers=TriggersConfig(mode="cost"),
)


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


def make_kit(port: FakePort | None = None) -> Engine:
    port = port or FakePort(model=FakeModel(context_size=WINDOW), context=[user("Begin.")], reply_id="r1")
    codec = FakeCodec()
    guard = OffloadGuard(StoreOffloader(MemoryStore(), codec), codec=codec, timeout_s=5)
    return Engine(port, codec, counter=ByteCounter(), guard=guard)


def restarted(kit: Engine) -> Engine:
    """Return the kit of the same agent in a new process: only its state has come along."""
    before = kit.port
    port = FakePort(model=before.model, context=list(before.context), reply_id=before.reply_id)
    port.slot.update(json.loads(json.dumps(before.slot)))
    return make_kit(port)


def grow(kit: Engine, number: int = 1, *, size: int = 4_000) -> None:
    """Add reasoning steps to the reply that runs."""
    for _ in range(number):
        reply = kit.port.context[-1]
        if reply.role != "assistant":
            reply = agent(reply_id=kit.port.reply_id)
            kit.port.context.append(reply)
        reply.content.extend(step(f"c{len(reply.content)}", "x" * size))


async def warmed(kit: Engine, watch: Watch, *, steps: int = 10):
    """Look once a step, so that growth is known; return the last look."""
    look = await watch.look(PRICED)
    for _ in range(steps):
        grow(kit)
        look = await watch.look(PRICED)
    return look


@pytest.mark.asyncio
async def test_growth_is_what_came_between_two_looks():
    kit = make_kit()
    watch = Watch(kit, now=Clock())
    look = await warmed(kit, watch)
    before = look.tokens

    grow(kit)
    after = (await watch.look(PRICED)).tokens

    assert look.growth_tokens == pytest.approx(after - before, rel=0.1)


@pytest.mark.asyncio
async def test_a_new_turn_is_due_earlier_and_its_next_step_no_more():
    kit = make_kit()
    watch = Watch(kit, now=Clock())
    within = await warmed(kit, watch)

    kit.port.reply_id = "r2"
    kit.port.context.append(user("And now?"))
    first = await watch.look(PRICED)
    grow(kit)
    second = await watch.look(PRICED)

    assert first.trigger_tokens < 0.9 * within.trigger_tokens
    assert second.trigger_tokens > 0.9 * within.trigger_tokens


@pytest.mark.asyncio
async def test_a_finished_task_is_a_boundary_and_an_open_one_is_waited_for():
    kit = make_kit()
    watch = Watch(kit, now=Clock())
    none = await warmed(kit, watch)

    looks = {}
    for status in ("in_progress", "completed"):
        kit.port.context[-1].content += [call(status, "TaskUpdate", task_id="1", status=status), result(status)]
        looks[status] = await watch.look(PRICED)

    assert looks["in_progress"].trigger_tokens > 1.2 * none.trigger_tokens
    assert looks["completed"].trigger_tokens < 0.9 * none.trigger_tokens
    assert "a task has been finished" in looks["completed"].why


@pytest.mark.asyncio
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_cache_that_was_idle_for_longer_than_it_lives_makes_an_edit_due_earlier(is_restarted):
    kit, clock = make_kit(), Clock()
    watch = Watch(kit, now=clock)
    hot = await warmed(kit, watch)

    clock.seconds += 301
    if is_restarted:
        kit = restarted(kit)
        watch = Watch(kit, now=clock)
    grow(kit)
    cold = await watch.look(PRICED)

    assert cold.trigger_tokens < 0.9 * hot.trigger_tokens


@pytest.mark.asyncio
async def test_an_idle_time_within_the_life_of_the_cache_changes_nothing():
    kit, clock = make_kit(), Clock()
    watch = Watch(kit, now=clock)
    hot = await warmed(kit, watch)

    clock.seconds += 299
    grow(kit)

    assert (await watch.look(PRICED)).trigger_tokens == pytest.approx(hot.trigger_tokens, rel=0.05)


@pytest.mark.asyncio
async def test_what_was_learnt_is_known_after_a_restart():
    kit, clock = make_kit(), Clock()
    watch = Watch(kit, now=clock)
    look = await warmed(kit, watch)

    again = await Watch(restarted(kit), now=clock).look(PRICED)

    assert again.growth_tokens == look.growth_tokens
    assert "the agent has just been restored" in again.why


@pytest.mark.asyncio
async def test_to_foresee_the_trigger_remembers_nothing():
    kit = make_kit()
    watch = Watch(kit, now=Clock())
    look = await warmed(kit, watch)
    slot = json.dumps(kit.port.slot)
    kit.port.reply_id = "r2"
    kit.port.context.append(user("And now?"))

    foreseen = await watch.foresee(PRICED)

    assert foreseen == pytest.approx(look.trigger_tokens, rel=0.05)
    assert json.dumps(kit.port.slot) == slot
    assert "a new turn begins" in (await watch.look(PRICED)).why


@pytest.mark.asyncio
async def test_messages_and_turns_are_counted_where_a_limit_is_set():
    kit = make_kit()
    watch = Watch(kit, now=Clock())
    limited = replace(PRICED, triggers=TriggersConfig(max_messages=10))
    grow(kit, 3, size=10)
    assert not (await watch.look(limited)).is_due

    grow(kit, 1, size=10)
    look = await watch.look(limited)

    assert look.is_due
    assert look.decision.keep_messages == 5


@pytest.mark.asyncio
async def test_a_compression_that_shortened_only_what_was_oversized_begins_no_cooldown():
    kit = make_kit()
    watch = Watch(kit, now=Clock())
    cooling = replace(PRICED, triggers=TriggersConfig(cooldown_turns=2, max_tokens=5_000))
    look = await watch.look(cooling)
    receipt = Receipt(
        plan_id="p",
        reason=Reason.TRIGGER,
        outcome="applied",
        tokens_before=look.tokens,
        tokens_after=look.tokens - 1,
        limit_tokens=look.trigger_tokens,
    )

    watch.ended(receipt, cooling)
    grow(kit, 10)

    assert (await watch.look(cooling)).is_due
    watch.ended(replace(receipt, tokens_after=1_000), cooling)
    held = await watch.look(cooling)
    assert (held.is_due, held.decision) == (False, None)
    assert "0 turns ago" in held.why


@pytest.mark.asyncio
async def test_an_edit_by_price_that_leaves_more_than_its_trigger_is_not_the_last_for_half_the_window():
    kit = make_kit()
    watch = Watch(kit)
    due = await warmed(kit, watch)
    while not due.is_due:
        grow(kit)
        due = await watch.look(PRICED)
    left = due.trigger_tokens + 1
    done = Receipt(
        plan_id="p",
        reason=Reason.TRIGGER,
        outcome="applied",
        tokens_before=due.tokens,
        tokens_after=left,
        limit_tokens=due.trigger_tokens,
    )
    watch.ended(done, PRICED)

    until = watch._habits.rest.until_tokens

    assert until == left + due.decision.headroom_tokens // 2


@pytest.mark.asyncio
async def test_after_an_undo_it_rests_for_some_turns_over_a_restart():
    kit = make_kit()
    watch = Watch(kit, now=Clock())
    limited = replace(PRICED, triggers=TriggersConfig(max_tokens=2_000))
    grow(kit, 5)
    assert (await watch.look(limited)).is_due

    watch.rest_after_undo(1)
    kit = restarted(kit)
    watch = Watch(kit, now=Clock())
    assert not (await watch.look(limited)).is_due
    kit.port.reply_id = "r2"

    assert (await watch.look(limited)).is_due
