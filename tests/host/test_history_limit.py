"""How many earlier turns an agent is shown, by number and by its session's key (rows O3 and O5)."""

import pytest
from agentscope.agent import InjectionConfig
from agentscope.message import AssistantMsg
from agentscope.state import AgentState

from ctxkit import CompressionMiddleware, ContextConfig, SessionKey
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    events_of,
    exchange,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    receipts,
    summary_text,
    text_of,
    told,
    user,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.row("O5")]

CHANNELS = {"telegram": {"historyLimit": 4, "dmHistoryLimit": 3, "dms": {"ada": {"historyLimit": 2}}}}


def limited(most=None, *, script=("done",), turns=0, session_id="s-1", channels=None, **kwargs):
    """Return an agent with so many earlier turns, and its model."""
    settings = kwargs.pop("config", {})
    model = ScriptedModel(script, context_size=200_000)
    agent = make_agent(
        model,
        config=ContextConfig(history={"max_user_turns": most, "channels": channels}, **settings),
        state=AgentState(session_id=session_id),
        offloader=kwargs.pop("offloader", memory_offloader()),
        injection_config=InjectionConfig(inject_runtime_state=False),
        **kwargs,
    )
    agent.state.context = history(turns, size=40)
    return agent, model


def questions(messages):
    """Return the numbers of the turns whose questions stand in messages."""
    texts = [text_of([message]) for message in messages if message.role == "user"]
    return [int(text.split()[1][:-1]) for text in texts if text.startswith("Question")]


async def test_before_a_reply_older_turns_leave_and_the_newest_are_all_there():
    agent, model = limited(3, turns=8)

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == [5, 6, 7]
    assert text_of(model.chats[0].messages[-1:]) == "And now?"
    assert text_of(agent.state.context[:-2]) == text_of(history(8, size=40)[-6:])
    assert not orphans(agent.state.context)


async def test_no_model_is_asked_for_a_summary_and_no_layer_tells_of_what_is_hidden():
    agent, model = limited(3, turns=8)

    await agent.reply(user("And now?"))

    assert [request.kind for request in model.requests] == ["chat"]
    assert not agent.state.summary
    (receipt,) = applied(agent)
    assert (receipt.rules, receipt.summary, receipt.messages_compressed) == (("history_limit",), "none", 10)
    assert receipt.why.endswith("; turns before the limit of the history leave")


async def test_what_is_hidden_is_stored_first_and_found_by_recall():
    script = [call("search_context", query=number_of("old-0")), "found"]
    agent, model = limited(3, turns=8, script=script)

    await agent.reply(user("What was the first number?"))

    assert number_of("old-0") not in text_of(model.chats[0].messages)
    assert number_of("old-0") in text_of(model.chats[1].messages[-1:])


async def test_where_it_cannot_be_stored_nothing_is_hidden():
    class Down:
        async def offload_context(self, *_, **__):
            raise OSError("down")

        async def offload_tool_result(self, *_, **__):
            raise OSError("down")

    agent, model = limited(3, turns=8, offloader=Down(), config={"offload": {"local_copy": False}})

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == list(range(8))
    assert not applied(agent)


async def test_it_is_looked_at_once_a_turn_and_each_turn_moves_it_on():
    agent, model = limited(2, turns=2, script=[call("fetch", topic="a", size=5), "one", "two", "three"])

    for number in range(2, 5):
        await agent.reply(user(f"Question {number}: go on."))

    assert [questions(chat.messages) for chat in model.chats] == [[0, 1, 2], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert len(receipts(agent)) == 2


async def test_within_the_limit_nothing_is_done():
    agent, model = limited(8, turns=8)

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == list(range(8))
    assert not receipts(agent)


async def test_the_turn_that_begins_is_never_hidden_nor_counted():
    agent, model = limited(1, turns=3)

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == [2]
    assert text_of(model.chats[0].messages[-1:]) == "And now?"


@pytest.mark.parametrize(("turns", "has_greeting"), [(2, True), (3, True), (4, False)])
async def test_a_greeting_counts_as_no_turn_and_leaves_with_the_first_one(turns, has_greeting):
    agent, model = limited(3)
    agent.state.context = [AssistantMsg(name="scribe", content="Welcome."), *history(turns, size=5)]

    await agent.reply(user("And now?"))

    assert ("Welcome." in text_of(model.chats[0].messages)) == has_greeting
    assert questions(model.chats[0].messages) == list(range(max(0, turns - 3), turns))


async def test_the_user_is_told_by_the_events_of_a_compression():
    agent, _ = limited(3, turns=8)

    events = await events_of(agent.reply_stream(user("And now?")))

    names = told(events)
    assert names[0] == "compression.started"
    assert names[-1] == "compression.done"


async def test_pinned_turns_stay_and_a_call_is_never_parted_from_its_result():
    agent, model = limited(2, turns=6)
    middleware = agent._compress_context_middlewares[0]
    await middleware.steering(agent).pin(agent.state.context[0])

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == [0, 4, 5]
    assert not orphans(agent.state.context)


async def test_a_result_that_stands_in_a_later_turn_keeps_its_call():
    agent, model = limited(1)
    made, result = exchange(0, size=5)
    agent.state.context = [
        user("Question 0: begin."),
        AssistantMsg(name="scribe", content=[made]),
        user("Question 1: and?"),
        AssistantMsg(name="scribe", content=[result]),
    ]

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == [1]
    assert not orphans(agent.state.context)


async def test_it_is_explained_and_taken_back_and_then_rests():
    agent, model = limited(3, turns=8, script=["one", "two"])
    steering = agent._compress_context_middlewares[0].steering(agent)
    first = agent.state.context[0].id

    await agent.reply(user("And now?"))
    explained = await steering.explain(first)
    await steering.undo()
    await agent.reply(user("And then?"))

    assert "history_limit" in str(explained)
    assert questions(model.chats[1].messages) == list(range(8))


async def test_a_compression_that_is_due_hides_first_and_is_not_made_where_that_is_enough():
    model = ScriptedModel(["done"], context_size=16_000)
    agent = make_agent(
        model,
        config=ContextConfig(history={"max_user_turns": 2}, trigger_ratio=0.5),
        offloader=memory_offloader(),
        injection_config=InjectionConfig(inject_runtime_state=False),
    )
    agent.state.context = history(20, size=400)

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == [18, 19]
    assert not model.summary_requests
    assert not summary_text(agent)


async def test_a_summary_tells_of_what_leaves_within_the_limit_and_of_nothing_that_is_hidden():
    model = ScriptedModel(["done"], context_size=16_000)
    agent = make_agent(
        model,
        config=ContextConfig(
            history={"max_user_turns": 14}, trigger_ratio=0.5, summary={"prepare": False, "warm": False}
        ),
        offloader=memory_offloader(),
        injection_config=InjectionConfig(inject_runtime_state=False),
    )
    agent.state.context = history(20, size=400)

    await agent.reply(user("And now?"))

    asked = "\n".join(text_of(request.messages) for request in model.summary_requests)
    assert number_of("old-6") in asked
    assert number_of("old-5") not in asked
    assert number_of("old-5") not in summary_text(agent)
    assert applied(agent)[0].summary != "none"


# By session key (rows O3 and O5)


@pytest.mark.row("O3")
@pytest.mark.parametrize(
    ("session_id", "left"),
    [
        ("agent:main:telegram:dm:ada", [6, 7]),
        ("agent:main:telegram:dm:ada:thread:123", [6, 7]),
        ("agent:main:telegram:direct:bob:topic:456", [5, 6, 7]),
        ("agent:main:telegram:group:-100", [4, 5, 6, 7]),
        ("agent:main:discord:dm:ada", list(range(2, 8))),
        ("3f2a", list(range(2, 8))),
    ],
)
async def test_the_limit_of_a_channel_is_that_of_the_sessions_user_else_that_of_its_kind(session_id, left):
    agent, model = limited(6, turns=8, session_id=session_id, channels=CHANNELS)

    await agent.reply(user("And now?"))

    assert questions(model.chats[0].messages) == left


@pytest.mark.row("O3")
async def test_agents_of_one_middleware_have_the_limits_of_their_own_sessions():
    one = CompressionMiddleware()
    ada, ada_model = limited(
        turns=8, session_id=str(key("ada")), channels=CHANNELS, middlewares=[one], offloader=memory_offloader()
    )
    bob, bob_model = limited(
        turns=8, session_id=str(key("bob")), channels=CHANNELS, middlewares=[one], offloader=memory_offloader()
    )

    await ada.reply(user("And now?"))
    await bob.reply(user("And now?"))

    assert questions(ada_model.chats[0].messages) == [6, 7]
    assert questions(bob_model.chats[0].messages) == [5, 6, 7]


def key(user_id):
    return SessionKey(agent_id="main", provider="telegram", kind="dm", user_id=user_id)
