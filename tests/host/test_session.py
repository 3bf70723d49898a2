"""Sessions through real agents: saved after each reply, and given to the agent that goes on."""

import asyncio
import contextlib
import logging

import pytest
from agentscope.event import ConfirmResult, ReplyEndEvent, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import AssistantMsg, TextBlock, ToolResultBlock
from agentscope.permission import PermissionBehavior, PermissionMode, PermissionRule
from agentscope.state import AgentState
from agentscope.tool import FunctionTool

from ctxkit import (
    CompressionMiddleware,
    ConfigError,
    ContextConfig,
    ContextEvent,
    HostCodec,
    MemoryStore,
    SessionMiddleware,
    StoreOffloader,
    SummaryConfig,
)
from ctxkit.errors import StoreReadError, StoreWriteError
from ctxkit.sessions import MemorySessionStore, SqliteSessionStore
from ctxkit.testing import call
from tests.host.agents import applied, events_of, fetches, memory_offloader, orphans, text_of, told, user
from tests.host.session_agents import careful, parked, plain, row_of, saved_state, scribe

pytestmark = pytest.mark.asyncio

BASH = {"tool_name": "Bash", "rule_content": "git:*"}


# Saved and given back


@pytest.mark.row("O1")
async def test_a_second_agent_goes_on_with_an_equal_state_where_the_first_ended(store):
    session = SessionMiddleware(store)
    first = scribe(session, [*fetches(2), "Both are looked up."])
    await first.reply(user("Look up two topics."))

    second = scribe(session, ["It was about two topics."])
    restored = await session.attach(second)

    assert plain(second) == plain(first)
    assert restored.messages == len(first.state.context)
    assert (restored.rule, restored.repairs, restored.dropped) == ("whole", (), 0)
    await second.reply(user("What was it about?"))
    assert text_of(second.state.context).startswith(text_of(first.state.context))


async def test_the_first_reply_attaches_where_nobody_did(store):
    session = SessionMiddleware(store)
    await scribe(session, ["Noted."]).reply(user("My number is 4711."))

    second = scribe(session, ["It is 4711."])
    events = await events_of(second.reply_stream(user("What is my number?")))

    assert "My number is 4711." in text_of(second.state.context)
    assert told(events)[0] == "session.restored"
    assert events[0].type == "REPLY_START"
    (event,) = [event for event in events if isinstance(event, ContextEvent)]
    assert event.reply_id == events[0].reply_id
    assert event.value["messages"] == 2


async def test_what_is_saved_is_loaded_without_ctxkit(store):
    session = SessionMiddleware(store)
    agent = scribe(session, [*fetches(1), "Done."])
    agent.state.permission_context.mode = PermissionMode.EXPLORE
    await agent.reply(user("Look it up."))

    assert (await saved_state(store)).model_dump(mode="json") == plain(agent)


async def test_attach_tells_of_nothing_where_nothing_was_saved_and_opens_the_session(store):
    session = SessionMiddleware(store)
    agent = scribe(session, [])

    assert await session.attach(agent) is None
    assert (await row_of(store)).session_id == "s-1"


async def test_objects_that_the_host_holds_stay_the_same(store):
    session = SessionMiddleware(store)
    first = scribe(session, ["Noted."])
    first._engine.add_rule(PermissionRule(**BASH, behavior=PermissionBehavior.ALLOW, source="session"))
    first.state.tool_context.activated_groups.append("files")
    await first.reply(user("Hello."))

    second = scribe(session, [])
    before = (second.state, second.state.permission_context, second.state.tool_context, second.state.tasks_context)
    await session.attach(second)

    after = (second.state, second.state.permission_context, second.state.tool_context, second.state.tasks_context)
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert second._engine.context is second.state.permission_context
    assert set(second._engine.context.allow_rules) == {"Bash"}
    assert second.state.tool_context.activated_groups == ["files"]


async def test_a_restart_takes_no_permission_back_that_the_application_has_set(store):
    session = SessionMiddleware(store)
    first = scribe(session, ["Noted."])
    first.state.permission_context.mode = PermissionMode.BYPASS
    await first.reply(user("Hello."))

    second = scribe(session, [])
    deny = PermissionRule(**BASH, behavior=PermissionBehavior.DENY, source="application")
    second.state.permission_context.mode = PermissionMode.EXPLORE
    second.state.permission_context.deny_rules["Bash"] = [deny]
    await session.attach(second)

    assert second.state.permission_context.mode == PermissionMode.EXPLORE
    assert second.state.permission_context.deny_rules == {"Bash": [deny]}


async def test_an_agent_with_a_context_of_its_own_keeps_it(store):
    session = SessionMiddleware(store)
    await scribe(session, ["Noted."]).reply(user("What was before."))
    offloader = memory_offloader()
    state = AgentState(session_id="s-1", context=[user("Mine."), AssistantMsg(name="scribe", content="My answer.")])
    second = scribe(session, ["Fine."], state=state, offloader=offloader)

    assert await session.attach(second) is None

    assert [text_of([message]) for message in second.state.context] == ["Mine.", "My answer."]
    entries = [entry async for entry in offloader.store.list("s-1")]
    assert len(entries) == 2  # what the agent has not is stored before it is saved over


async def test_what_an_agent_has_only_observed_stays_behind_what_is_restored(store):
    session = SessionMiddleware(store)
    await scribe(session, ["Noted."]).reply(user("First."))
    second = scribe(session, ["Fine."])
    await second.observe(AssistantMsg(name="colleague", content="By the way."))

    await second.reply(user("Second."))

    assert text_of(second.state.context).split("\n") == ["First.", "Noted.", "By the way.", "Second.", "Fine."]


async def test_agents_of_other_sessions_share_nothing(store):
    session = SessionMiddleware(store)
    one, other = scribe(session, ["One."], session_id="a"), scribe(session, ["Other."], session_id="../a")
    await asyncio.gather(one.reply(user("I am one.")), other.reply(user("I am the other.")))

    assert "other" not in text_of((await saved_state(store, "a")).context)
    assert "I am the other." in text_of((await saved_state(store, "../a")).context)


# When it is saved


async def test_a_reply_is_saved_before_its_end_is_told(store):
    session = SessionMiddleware(store)
    agent = scribe(session, ["The answer."])

    async for event in agent.reply_stream(user("The question.")):
        if isinstance(event, ReplyEndEvent):
            assert "The answer." in text_of((await saved_state(store)).context)
            return
    pytest.fail("the reply never ended")


async def test_a_reply_that_raised_is_saved_as_far_as_it_came(store):
    def breaks(messages):
        raise ConnectionError("the provider is gone")

    session = SessionMiddleware(store)
    agent = scribe(session, [*fetches(1), breaks, breaks, breaks, breaks, breaks])

    with pytest.raises(ConnectionError):
        await agent.reply(user("Look it up."))

    assert "Report on topic-0" in text_of((await saved_state(store)).context)
    assert (await row_of(store)).total_tokens > 0


async def test_a_reply_that_was_cancelled_is_saved_and_the_cancellation_leaves(store):
    reached, never = asyncio.Event(), asyncio.Event()

    async def hang(topic: str) -> str:
        """Hang.

        Args:
            topic (str): Anything.
        """
        reached.set()
        await never.wait()
        return topic

    session = SessionMiddleware(store)
    agent = scribe(session, [call("hang", topic="x")], tools=[FunctionTool(hang, is_read_only=True)])
    agent.react_config.interruption_raise_cancelled_error = True
    task = asyncio.create_task(agent.reply(user("Hang on.")))
    await reached.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    state = await saved_state(store)
    assert "Hang on." in text_of(state.context)
    assert orphans(state.context) == []
    await scribe(session, ["Fine."]).reply(user("Go on."))  # the session was let go of


async def test_a_reply_whose_stream_was_left_is_saved_and_its_session_let_go_of(store):
    session = SessionMiddleware(store)
    agent = scribe(session, [*fetches(1), "Done."])
    stream = agent.reply_stream(user("Look it up."))
    async for event in stream:
        if event.type == "TOOL_RESULT_END":
            break
    await stream.aclose()

    second = scribe(session, ["Fine."])
    await second.reply(user("Go on."))
    assert "Report on topic-0" in text_of(second.state.context)


@pytest.mark.row("O1")
async def test_the_session_is_saved_before_a_compression_takes_anything_away(store):
    session = SessionMiddleware(store)
    agent = scribe(session, [*fetches(30), "Done."], window=8000, offloader=memory_offloader())
    seen = []
    async for event in agent.reply_stream(user("Look up thirty topics.")):
        if isinstance(event, ContextEvent) and event.name == "ctxkit.compression.done":
            saved = await saved_state(store)
            seen.append(len(saved.context[-1].content) > len(agent.state.context[-1].content))

    assert len(applied(agent)) >= 2
    assert seen
    assert all(seen)
    assert (await row_of(store)).compaction_count == len(applied(agent))


@pytest.mark.row("O1")
async def test_what_a_limit_of_the_history_hides_is_no_compaction_in_the_index(store):
    config = ContextConfig(history={"max_user_turns": 1})
    agent = scribe(SessionMiddleware(store), ["Yes."] * 4, config=config, offloader=memory_offloader())
    for number in range(4):
        await agent.reply(user(f"Is it {number}?"))

    assert len(applied(agent)) == 2
    assert (await row_of(store)).compaction_count == 0


@pytest.mark.row("O1")
async def test_the_index_says_what_a_session_holds(store):
    session = SessionMiddleware(store, delivery={"channel": "web"})
    agent = scribe(session, ["Hello."], window=32_000)
    session.delivery(agent, {"channel": "mail", "peer": "ada"})
    events = await events_of(agent.reply_stream(user("Hello.")))

    row = await row_of(store)
    (end,) = [event for event in events if event.type == "MODEL_CALL_END"]
    assert (row.agent_id, row.context_tokens, row.compaction_count) == ("main", 32_000, 0)
    assert (row.total_tokens, row.total_tokens_fresh) == (end.input_tokens + end.output_tokens, True)
    assert dict(row.delivery) == {"channel": "mail", "peer": "ada"}
    assert row.size > 0

    await session.attach(second := scribe(session, []))
    await session.save(second)
    row_again = await row_of(store)
    assert (row_again.total_tokens, row_again.total_tokens_fresh) == (row.total_tokens, False)
    assert dict(row_again.delivery) == dict(row.delivery)


# The rule of texts (row C8)


@pytest.mark.row("C8")
async def test_a_restart_by_texts_gives_what_was_said_in_the_newest_turns(store):
    whole = SessionMiddleware(store)
    script = [step for turn in range(5) for step in [call("fetch", topic=f"t{turn}"), f"Answer {turn}."]]
    first = scribe(whole, script)
    for turn in range(5):
        await first.reply(user(f"Question {turn}."))

    offloader = memory_offloader()
    texts = SessionMiddleware(store, restore="texts", max_turns=20)
    second = scribe(texts, ["Fine."], offloader=offloader)
    restored = await texts.attach(second)

    said = [text for turn in (2, 3, 4) for text in (f"Question {turn}.", f"Answer {turn}.")]
    assert text_of(second.state.context).split("\n") == said
    assert (restored.rule, restored.messages) == ("texts", 6)
    stored = [entry async for entry in offloader.store.list("s-1") if entry.kind == "message"]
    assert restored.dropped == len(stored) == 7  # two turns, and what the other three answers were made of
    await second.reply(user("Go on."))


async def test_more_turns_come_back_where_the_application_allows_more(store):
    session = SessionMiddleware(store)
    first = scribe(session, [f"Answer {turn}." for turn in range(8)])
    for turn in range(8):
        await first.reply(user(f"Question {turn}."))

    texts = SessionMiddleware(store, restore="texts", max_turns=36)
    await texts.attach(second := scribe(texts, []))

    assert len(second.state.context) == 2 * 6


async def test_texts_are_not_taken_from_a_session_that_waits_for_a_person(store):
    session = SessionMiddleware(store)
    await parked(session)

    texts = SessionMiddleware(store, restore="texts")
    second = scribe(texts, ["It is done."], tools=[careful()])
    restored = await texts.attach(second)

    assert restored.rule == "whole"
    assert second.state.has_awaiting_tool_calls("scribe")


async def test_texts_that_cannot_be_stored_first_are_not_dropped(store):
    class Down(MemoryStore):
        async def append(self, session_id, records):
            raise StoreWriteError("the disk is full")

    session = SessionMiddleware(store)
    await scribe(session, [*fetches(1), "Done."]).reply(user("Look it up."))

    texts = SessionMiddleware(store, restore="texts")
    second = scribe(texts, [], offloader=StoreOffloader(Down(), HostCodec()))
    restored = await texts.attach(second)

    assert restored.rule == "whole"
    assert "Report on topic-0" in text_of(second.state.context)


async def test_what_comes_while_a_session_is_restored_stays_behind_it(store):
    class Slow(MemoryStore):
        async def append(self, session_id, records):
            await second.observe(AssistantMsg(name="colleague", content="By the way."))
            return await super().append(session_id, records)

    await scribe(SessionMiddleware(store), [*fetches(1), "Done."]).reply(user("Look it up."))
    texts = SessionMiddleware(store, restore="texts")
    second = scribe(texts, [], offloader=StoreOffloader(Slow(), HostCodec()))
    await texts.attach(second)

    assert text_of(second.state.context).split("\n") == ["Look it up.", "Done.", "By the way."]


# A session without an answer (row O17)


@pytest.mark.row("O17")
async def test_a_first_request_that_was_never_answered_stands_once_when_it_comes_again(store):
    def breaks(messages):
        raise ConnectionError("killed before it answered")

    session = SessionMiddleware(store)
    with pytest.raises(ConnectionError):
        await scribe(session, [breaks] * 9).reply(user("The first request."))

    second = scribe(session, ["The answer."])
    await second.reply(user("The first request."))

    assert text_of(second.state.context).split("\n") == ["The first request.", "The answer."]
    assert text_of((await saved_state(store)).context).count("The first request.") == 1


# Repair on load


@pytest.mark.row("O15")
async def test_a_context_that_no_provider_would_take_is_mended_when_it_is_loaded(store):
    torn = AssistantMsg(name="scribe", content=[TextBlock(text="Let me see."), call("fetch", topic="x")])
    orphan = AssistantMsg(name="scribe", content=[ToolResultBlock(id="gone", name="fetch", output="Nobody asked.")])
    state = AgentState(session_id="s-1", context=[user("Hello."), orphan, torn])
    await store.save("s-1", state.model_dump(mode="json"))
    session = SessionMiddleware(store)
    offloader = memory_offloader()
    agent = scribe(session, ["Fine."], offloader=offloader)

    events = await events_of(agent.reply_stream(user("Go on.")))

    assert orphans(agent.state.context) == []
    assert told(events)[:2] == ["session.restored", "session.repaired"]
    assert text_of(agent.state.context).endswith("Go on.\nFine.")
    stored = b"".join([await offloader.store.get(e.reference) async for e in offloader.store.list("s-1")])
    assert b"Nobody asked." in stored


async def test_what_is_no_message_is_stored_aside_and_the_rest_is_given(store):
    state = AgentState(
        session_id="s-1", context=[user("Hello."), AssistantMsg(name="scribe", content="Hello yourself.")]
    )
    damaged = state.model_dump(mode="json")
    damaged["context"].insert(1, {"role": "nobody", "content": 5, "mark": "MARK-1"})
    await store.save("s-1", damaged)
    session = SessionMiddleware(store)
    offloader = memory_offloader()
    agent = scribe(session, ["Fine."], offloader=offloader)

    await agent.reply(user("Go on."))

    assert text_of(agent.state.context) == "Hello.\nHello yourself.\nGo on.\nFine."
    stored = b"".join([await offloader.store.get(e.reference) async for e in offloader.store.list("s-1")])
    assert b"MARK-1" in stored


async def test_what_is_no_message_and_can_be_stored_nowhere_is_not_saved_over(store):
    damaged = AgentState(context=[AssistantMsg(name="scribe", content="Hello.")]).model_dump(mode="json")
    damaged["context"].insert(0, {"role": "nobody", "mark": "MARK-1"})
    await store.save("s-1", damaged)
    session = SessionMiddleware(store)
    agent = scribe(session, ["Fine."])

    with pytest.raises(StoreReadError, match="ctxkit repair"):
        await session.attach(agent)
    events = await events_of(agent.reply_stream(user("Go on.")))

    assert told(events) == ["session.save_failed"]
    assert (await store.load("s-1")).state["context"] == damaged["context"]


# A person is asked in between


async def test_a_reply_that_waits_for_a_person_is_gone_on_with_by_another_agent(store):
    session = SessionMiddleware(store)
    _, events = await parked(session)
    (request,) = [event for event in events if isinstance(event, RequireUserConfirmEvent)]

    second = scribe(session, ["It is done."], tools=[careful()])
    results = [ConfirmResult(confirmed=True, tool_call=tool_call) for tool_call in request.tool_calls]
    answer = await second.reply(UserConfirmResultEvent(reply_id=request.reply_id, confirm_results=results))

    assert answer.get_text_content() == "It is done."
    assert "Transferred 5." in text_of((await saved_state(store)).context)


# In what company


@pytest.mark.parametrize("order", ["first", "last"])
async def test_the_order_of_the_middlewares_changes_no_outcome(store, order):
    session, compression = SessionMiddleware(store), CompressionMiddleware()
    given = [session, compression] if order == "first" else [compression, session]
    # A summary in the background would go on, and the first agent's pace with it, when its state has been saved.
    settings = {
        "config": ContextConfig(summary=SummaryConfig(prepare=False)),
        "middlewares": given,
        "offloader": memory_offloader(),
        "window": 8000,
    }
    first = scribe(session, [*fetches(30), "Done."], **settings)
    await first.reply(user("Look up thirty topics."))
    second = scribe(session, ["Fine."], **settings)
    await session.attach(second)

    assert plain(second) == plain(first)
    assert len(applied(first)) >= 2


async def test_a_second_session_middleware_does_nothing(store, caplog):
    mine, other = MemorySessionStore(), store
    first, second = SessionMiddleware(mine), SessionMiddleware(other)
    agent = scribe(first, ["Fine."], middlewares=[first, second, CompressionMiddleware()])

    with caplog.at_level(logging.WARNING, "ctxkit"):
        await agent.reply(user("Hello."))

    assert await mine.load("s-1") is not None
    assert await other.load("s-1") is None
    assert [record.message for record in caplog.records] == [
        "the session of agent 'scribe' is not saved: another SessionMiddleware of the agent saves it"
    ]


async def test_another_session_id_begins_another_session(store):
    session = SessionMiddleware(store)
    agent = scribe(session, ["One.", "Two."])
    await agent.reply(user("Say one."))
    agent.state = AgentState(session_id="s-2")
    await agent.reply(user("Say two."))

    assert text_of((await saved_state(store, "s-1")).context) == "Say one.\nOne."
    assert text_of((await saved_state(store, "s-2")).context) == "Say two.\nTwo."


async def test_compressing_by_hand_saves_the_session_first_and_goes_on_from_it(store):
    session = SessionMiddleware(store)
    agent = scribe(session, [*fetches(12), "Done."], offloader=memory_offloader(), window=200_000)
    await agent.reply(user("Look up twelve topics."))
    await agent.observe(user("By the way."))
    await agent._compress_context_middlewares[-1].compact(agent)

    assert "By the way." in text_of((await saved_state(store)).context)
    await session.save(agent)
    assert (await saved_state(store)).model_dump(mode="json") == plain(agent)


@pytest.mark.parametrize(
    ("setting", "word"),
    [({"restore": "some"}, "restore"), ({"max_turns": 0}, "max_turns"), ({"timeout_s": 0}, "timeout_s")],
)
async def test_settings_that_cannot_work_are_refused(setting, word):
    with pytest.raises(ConfigError, match=word):
        SessionMiddleware(MemorySessionStore(), **setting)


async def test_closing_lets_go_of_everything(tmp_path):
    async with SessionMiddleware(SqliteSessionStore(tmp_path / "sessions.db")) as session:
        await scribe(session, ["Fine."]).reply(user("Hello."))

    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("ctxkit")] == []


@pytest.mark.row("O17")
async def test_what_was_observed_before_the_first_request_outlives_a_restart(store):
    session = SessionMiddleware(store, locks=None)
    first = scribe(session, [])
    await first.observe(user("The number is 4711."))
    await session.save(first)

    second = scribe(session, [RuntimeError("killed")])
    with pytest.raises(RuntimeError):
        await second.reply(user("What is the number?"))
    saved = await saved_state(store)
    assert [m.get_text_content() for m in saved.context] == ["The number is 4711.", "What is the number?"]

    third = scribe(session, ["It is 4711."])
    await third.reply(user("What is the number?"))
    assert text_of(third.state.context) == "The number is 4711.\nWhat is the number?\nIt is 4711."
