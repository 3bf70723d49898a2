"""Store first, swap after: what a crash between the two leaves is taken up again, whole and without paying twice."""

import asyncio
import json
import logging

import pytest
from agentscope.message import Base64Source, DataBlock, ToolResultBlock
from agentscope.state import AgentState

from ctxkit import MemoryStore, OffloadConfig, StoreOffloader, telemetry
from ctxkit.errors import StoreFullError, StoreWriteError
from ctxkit.host import _sessions
from ctxkit.host._codec import HostCodec
from ctxkit.host._port import SLOT
from ctxkit.offload import MESSAGE, newest_summary
from ctxkit.offload.chain import PLAN, SUMMARY
from ctxkit.testing import ScriptedModel
from tests.host.agents import (
    applied,
    events_of,
    fetches,
    history,
    make_agent,
    number_of,
    receipts,
    summary_text,
    text_of,
    told,
    user,
)
from tests.host.summaries import GOOD, WINDOW, answers, lowered

pytestmark = pytest.mark.asyncio

OTHER = {**GOOD, "current_state": "All of them are found."}


class Hold:
    """Saves a session by keeping it here, as JSON."""

    def __init__(self, agent, *, error=None):
        self.agent = agent
        self.error = error
        self.saved = []
        _sessions.register(agent, self)

    async def save(self):
        if self.error is not None:
            raise self.error
        self.saved.append(self.agent.state.model_dump_json())

    async def touch(self):
        pass

    def store_for(self, store):
        return store


class Faulty(MemoryStore):
    """Refuses records of some kinds, or never answers where the error is a `TimeoutError`, until it is mended."""

    def __init__(self, error, *kinds):
        super().__init__()
        self.error = error
        self.kinds = kinds

    async def append(self, session_id, records):
        if self.error is not None and any(record.kind in self.kinds for record in records):
            if isinstance(self.error, TimeoutError):
                await asyncio.Event().wait()
            raise self.error
        return await super().append(session_id, records)


def an_agent(store, *, state=None, summaries=None, script=("done",), config=None, **settings):
    """Return an agent on a store, due for a compression, or one that goes on from a saved state."""
    model = ScriptedModel(script, context_size=WINDOW, summaries=summaries, enforce="cl100k")
    offloader = StoreOffloader(store, HostCodec())
    if state is not None:
        return make_agent(model, config=config or lowered(), offloader=offloader, state=state, **settings)
    agent = make_agent(model, config=config or lowered(), offloader=offloader, **settings)
    agent.state.context.extend(history(25))
    return agent


async def killed_before_the_swap(store):
    """Let an agent compress, and return it and its state as it was saved last: all is stored, nothing swapped."""
    agent = an_agent(store, summaries=answers(GOOD))
    hold = Hold(agent)
    await agent.compress_context()
    assert [receipt.outcome for receipt in receipts(agent)] == ["applied"]
    [saved] = hold.saved
    return agent, AgentState.model_validate_json(saved)


async def records_of(store, session_id, *kinds):
    return [entry async for entry in store.list(session_id) if entry.kind in kinds]


def plan_in(state):
    return state.middle_context[SLOT].get("plan")


@pytest.mark.row("X1")
async def test_what_is_saved_before_the_swap_has_the_whole_context_and_everything_is_stored():
    store = MemoryStore()
    agent, saved = await killed_before_the_swap(store)

    assert plan_in(saved) is None
    assert [number for number in range(25) if number_of(f"old-{number}") not in text_of(saved.context)] == []
    assert plan_in(agent.state) == applied(agent)[0].plan_id
    kinds = [entry.kind for entry in await records_of(store, saved.session_id, MESSAGE, PLAN, SUMMARY)]
    assert kinds == [MESSAGE] * (len(kinds) - 2) + [PLAN, SUMMARY]
    summary = await newest_summary(store, saved.session_id)
    assert summary.plan_id == plan_in(agent.state)
    assert list(summary.keys) == [entry.key for entry in await records_of(store, saved.session_id, MESSAGE)]


@pytest.mark.row("X1")
async def test_a_compression_that_a_crash_cut_short_is_gone_on_with_and_no_model_is_asked_again():
    store = MemoryStore()
    first, saved = await killed_before_the_swap(store)
    before = await records_of(store, saved.session_id, MESSAGE, PLAN, SUMMARY)

    agent = an_agent(store, state=saved, summaries=answers(OTHER))
    events = await events_of(agent.reply_stream(user("Go on.")))

    assert "plan.resumed" in told(events)
    assert agent.model.summary_requests == []
    assert [receipt.plan_id for receipt in applied(agent)] == [applied(first)[0].plan_id]
    assert {event.value["plan_id"] for event in events if getattr(event, "name", "").startswith("ctxkit.")} == {
        applied(first)[0].plan_id
    }
    assert summary_text(agent) == summary_text(first)
    left = len(first.state.context)
    assert [message.id for message in agent.state.context[:left]] == [message.id for message in first.state.context]
    assert await records_of(store, saved.session_id, MESSAGE, PLAN) == [b for b in before if b.kind != SUMMARY]


@pytest.mark.row("X1")
async def test_a_plan_is_carried_out_though_more_has_been_said_since():
    store = MemoryStore()
    _, saved = await killed_before_the_swap(store)
    saved.context.extend(history(4, prefix="later"))

    agent = an_agent(store, state=saved, summaries=answers(OTHER))
    events = await events_of(agent.reply_stream(user("Go on.")))

    assert "plan.resumed" in told(events)
    assert agent.model.summary_requests == []
    assert GOOD["current_state"] in summary_text(agent)
    assert "what of later-0?" in text_of(agent.state.context)


async def test_a_plan_whose_messages_are_others_by_now_is_ignored():
    store = MemoryStore()
    _, saved = await killed_before_the_swap(store)
    saved.context[1].content[-1].text = "Answer 0: something else."

    agent = an_agent(store, state=saved, summaries=answers(OTHER))
    events = await events_of(agent.reply_stream(user("Go on.")))

    assert "plan.resumed" not in told(events)
    assert len(agent.model.summary_requests) == 1
    assert OTHER["current_state"] in summary_text(agent)
    assert "Answer 0: something else." in (await store.get(store.reference(saved.session_id))).decode()


async def test_a_summary_that_was_asked_for_in_other_words_is_not_taken():
    store = MemoryStore()
    _, saved = await killed_before_the_swap(store)
    agent = an_agent(store, state=saved, summaries=answers(OTHER))

    await agent._compress_context_middlewares[0].compact(agent, focus="the numbers")

    assert len(agent.model.summary_requests) == 1


async def test_an_applied_plan_is_never_taken_up_again():
    store = MemoryStore()
    first, _ = await killed_before_the_swap(store)
    after = AgentState.model_validate_json(first.state.model_dump_json())
    after.context.extend(history(25, prefix="new"))

    agent = an_agent(store, state=after, summaries=answers(OTHER))
    events = await events_of(agent.reply_stream(user("Go on.")))

    assert "plan.resumed" not in told(events)
    assert len(agent.model.summary_requests) == 1


@pytest.mark.row("X1")
async def test_a_summary_is_paid_once_though_the_context_changed_while_it_was_made():
    store = MemoryStore()
    agent = an_agent(store, summaries=answers(GOOD, OTHER), script=["done", "done"])
    changes = []

    class Changing(Hold):
        async def save(self):
            if not changes:  # as an application does that edits the newest message
                changes.append(self.agent.state.context[-1])
                self.agent.state.context = [*self.agent.state.context[:-1], changes[0].model_copy()]

    Changing(agent)
    await agent.compress_context()
    assert [receipt.outcome for receipt in receipts(agent)] == ["failed"]
    await agent.compress_context()

    assert [receipt.outcome for receipt in receipts(agent)] == ["failed", "applied"]
    assert len(agent.model.summary_requests) == 1
    assert GOOD["current_state"] in summary_text(agent)


@pytest.mark.row("X1")
async def test_a_summary_whose_parts_the_state_has_lost_is_known_again_from_the_store():
    store = MemoryStore()
    first, _ = await killed_before_the_swap(store)
    lost = AgentState.model_validate_json(first.state.model_dump_json())
    lost.middle_context.clear()
    lost.context.extend(history(25, prefix="new"))

    agent = an_agent(store, state=lost, summaries=answers(OTHER))
    await agent.reply(user("Go on."))

    text = summary_text(agent)
    assert "Part 1: " in text
    assert "Part 2: " in text
    assert "An earlier summary said" not in text


async def test_a_summary_that_nobody_has_stored_is_taken_over_word_for_word():
    agent = an_agent(MemoryStore(), summaries=answers(OTHER))
    agent.state.summary = "The heron is the secret."

    await agent.reply(user("Go on."))

    assert "An earlier summary said: The heron is the secret." in summary_text(agent)


@pytest.mark.row("X1")
async def test_a_session_that_cannot_be_saved_is_told_and_stops_nothing(caplog):
    agent = an_agent(MemoryStore(), summaries=answers(GOOD))
    Hold(agent, error=StoreWriteError("the disk is gone"))

    events = await events_of(agent.reply_stream(user("Go on.")))

    assert told(events).count("session.save_failed") == 1
    assert [receipt.outcome for receipt in receipts(agent)] == ["applied"]
    assert "the disk is gone" in caplog.text


@pytest.mark.parametrize("kind", [PLAN, SUMMARY])
async def test_a_plan_or_summary_that_cannot_be_stored_is_told_and_costs_no_content(kind):
    store = Faulty(StoreFullError("the session is full"), kind)
    agent = an_agent(store, summaries=answers(GOOD))

    events = await events_of(agent.reply_stream(user("Go on.")))

    [failed] = [event.value for event in events if getattr(event, "name", "") == telemetry.STORE_FAILED]
    assert failed["what"] == kind
    assert [receipt.outcome for receipt in receipts(agent)] == ["applied"]
    stored = (await store.get(store.reference(agent.state.session_id))).decode()
    assert [n for n in range(25) if f"old-{n}" not in stored + text_of(agent.state.context)] == []


async def test_a_store_that_cannot_be_listed_costs_only_what_was_to_be_resumed(caplog):
    class Unlisted(MemoryStore):
        def list(self, session_id, *, after=0):
            raise OSError("no such device")

    agent = an_agent(Unlisted(), summaries=answers(GOOD))
    await agent.reply(user("Go on."))

    assert [receipt.outcome for receipt in receipts(agent)] == ["applied"]
    assert "no such device" in caplog.text


@pytest.mark.row("X1")
async def test_a_message_that_left_in_many_parts_reads_as_one_with_the_real_agent():
    store = MemoryStore()
    agent = make_agent(
        ScriptedModel([*fetches(60), "done"], context_size=WINDOW, summaries=answers(GOOD), enforce="cl100k"),
        config=lowered(),
        offloader=StoreOffloader(store, HostCodec()),
    )
    await agent.reply(user("Look up sixty topics."))
    reply = agent.state.context[-1]
    engine = agent._compress_context_middlewares[0]._agents.get(agent).engine
    parts = [
        json.loads(line)["id"]
        for line in (await store.get(store.reference(agent.state.session_id))).decode().splitlines()
        if "role" in json.loads(line)
    ]
    assert parts.count(reply.id) > 2

    text = await engine.recall.read(agent.state.session_id, reply.id, limit_tokens=200_000, ruler=engine.ruler)

    gone = [number_of(f"topic-{n}") for n in range(60) if number_of(f"topic-{n}") not in text_of([reply])]
    places = [text.find(f"its number is {number}.") for number in gone]
    assert len(gone) > 20
    assert places == sorted(places)
    assert -1 not in places
    assert [text.count(f"its number is {number}.") for number in gone] == [1] * len(gone)


async def test_a_slow_store_is_waited_for():
    class Slow(MemoryStore):
        async def append(self, session_id, records):
            for _ in range(1000):
                await asyncio.sleep(0)
            return await super().append(session_id, records)

    agent = an_agent(Slow(), summaries=answers(GOOD))
    events = await events_of(agent.reply_stream(user("Go on.")))

    assert telemetry.STORE_FAILED not in [getattr(event, "name", "") for event in events]
    assert [receipt.outcome for receipt in receipts(agent)] == ["applied"]


async def test_what_the_host_itself_cannot_store_is_told_too():
    class Down:
        async def offload_context(self, session_id, msgs, **kwargs):
            raise OSError("no route to host")

        async def offload_tool_result(self, session_id, tool_result, **kwargs):
            raise OSError("no route to host")

    model = ScriptedModel(["hello", "and again"], context_size=WINDOW)
    agent = make_agent(model, offloader=Down())
    await agent.reply(user("Hi."))

    reference = await agent.offloader.offload_tool_result(
        "s", ToolResultBlock(id="c1", name="fetch", output="a report")
    )
    picture = DataBlock(source=Base64Source(media_type="image/png", data="aGVsbG8="))
    events = await events_of(agent.reply_stream(user("And?")))

    assert reference
    assert (await agent.offloader.offload_data_block(picture)).source.type == "url"  # the copy has it
    failed = [event.value for event in events if getattr(event, "name", "") == telemetry.STORE_FAILED]
    assert [(value["what"], "no route to host" in value["problem"]) for value in failed] == [("result of fetch", True)]


class TestAStoreThatIsDown:
    """Nothing leaves the context, an event says so, and work goes on."""

    @pytest.mark.row("X1")
    @pytest.mark.parametrize(
        "error",
        [
            StoreWriteError("input/output error"),
            StoreFullError("the workspace has 5 GiB, its limit"),
            OSError(30, "Read-only file system"),
            TimeoutError("took more than 0.2 s"),
        ],
        ids=["raises", "is full", "is read-only", "hangs"],
    )
    async def test_keeps_the_context_whole_and_names_what_a_request_leaves_out(self, error, caplog):
        store = Faulty(error, MESSAGE)
        script = [*fetches(40, size=600), "done", "still here"]
        timeout_s = 0.2 if isinstance(error, TimeoutError) else 30.0
        config = lowered(trigger_ratio=0.7, offload=OffloadConfig(timeout_s=timeout_s))
        agent = an_agent(store, summaries=answers(GOOD), script=script, config=config)
        with caplog.at_level(logging.WARNING, "ctxkit"):
            events = await events_of(agent.reply_stream(user("Look up forty more topics.")))

        everything = text_of(agent.state.context)
        assert [n for n in range(25) if number_of(f"old-{n}") not in everything] == []
        assert [n for n in range(40) if f'"topic-{n}"' not in everything] == []
        assert agent.model.summary_requests == []
        assert applied(agent) == []
        problems = [e.value["problem"] for e in events if getattr(e, "name", "") == telemetry.STORE_FAILED]
        assert problems
        assert str(error) in problems[0]
        assert "would have broken a rule" not in caplog.text

        named = [e.value for e in events if getattr(e, "name", "") == telemetry.OVERFLOW]
        assert named[-1]["left_out_messages"] > 0
        assert str(error) in named[-1]["problem"]
        assert "goes on without" in caplog.text
        last = text_of(agent.model.chats[-1].messages)
        assert "were left out of this request" in last
        assert '"Question 0: what of old-0?"' in last

        store.error = None
        await agent.reply(user("And now?"))
        stored = (await store.get(store.reference(agent.state.session_id))).decode()
        assert len(applied(agent)) >= 1
        assert [n for n in range(25) if number_of(f"old-{n}") not in stored + text_of(agent.state.context)] == []
