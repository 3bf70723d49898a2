"""Commands in the chat, through a real agent: answered without a model, and kept with the session."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.message import AssistantMsg, Msg, TextBlock
from agentscope.state import AgentState
from agentscope.tool import FunctionTool
from pydantic import BaseModel

from ctxkit import (
    Commands,
    CommandsMiddleware,
    CompressionMiddleware,
    ConfigError,
    ContextConfig,
    CostConfig,
    HostCodec,
    LadderConfig,
    MemoryMiddleware,
    MemoryStore,
    OffloadConfig,
    Price,
    SessionLocks,
    SessionMiddleware,
    StoreOffloader,
    StoreWriteError,
    TriggersConfig,
)
from ctxkit.sessions import MemorySessionStore
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    events_of,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    summary_text,
    text_of,
    user,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.row("C9")]
PRICE = Price(cached=0.1, written=1.25, output=5, input_usd=3.0, source="made for this test")
ENTRY = "[DAILY]\n- The numbers of old topics were looked up.\n[MEMORY]\nOld topics are done."


def commanded(*before: Any, script: Any = ("Done.",), turns: int = 12, **kwargs: Any):
    """Return an agent with a past that answers commands, and its model."""
    model = kwargs.pop("model", None) or ScriptedModel(list(script), context_size=16_000, memories=ENTRY)
    commands = kwargs.pop("commands", None) or CommandsMiddleware()
    kwargs.setdefault("offloader", memory_offloader())
    kwargs.setdefault("config", ContextConfig(ladder=LadderConfig(rungs=("summarize",)), cost=CostConfig(price=PRICE)))
    agent = make_agent(model, middlewares=[commands, *before, CompressionMiddleware()], **kwargs)
    agent.state.context.extend(history(turns))
    return agent, model


async def said(agent, text: str) -> str:
    """Return what the agent answers in the chat."""
    return (await agent.reply(user(text))).get_text_content()


def as_json(agent) -> dict[str, Any]:
    """Return the agent's state; what ctxkit keeps of its own measures is left out."""
    state = json.loads(agent.state.model_dump_json())
    state["middle_context"].pop("ctxkit", None)
    return state


async def test_a_command_is_answered_without_a_model_call_and_the_context_does_not_grow():
    agent, model = commanded()
    before = as_json(agent)
    answer = await said(agent, "/context")
    assert "of the window" in answer
    assert model.requests == []
    assert as_json(agent) == before


@pytest.mark.parametrize("wrapped", [False, True])
async def test_the_answer_is_a_whole_reply_of_events_that_a_front_end_can_rebuild(wrapped):
    agent, _ = commanded()
    message = user("/context")
    events = await events_of(agent.reply_stream([message] if wrapped else message, yield_final_msg=True))
    kinds = [str(event.type) for event in events[:-1]]
    assert kinds == ["REPLY_START", "TEXT_BLOCK_START", "TEXT_BLOCK_DELTA", "TEXT_BLOCK_END", "REPLY_END"]
    final = events[-1]
    rebuilt = AssistantMsg(agent.name, [], id=events[0].reply_id)
    for event in events[:-1]:
        rebuilt.append_event(event)
    assert isinstance(final, Msg)
    assert rebuilt.get_text_content() == final.get_text_content()
    assert {event.reply_id for event in events[:-1]} == {final.id}
    assert final.id != agent.state.reply_id


async def test_context_tells_messages_roles_characters_tokens_by_part_window_compressions_and_money():
    agent, _ = commanded()
    await said(agent, "/compact")
    lines = dict(line.partition(": ")[::2] for line in (await said(agent, "/context")).splitlines()[2:])
    bar = (await said(agent, "/context")).splitlines()[1]
    assert bar.startswith("[#")
    assert "of 16,000 tokens, compressed at" in bar
    roles = lines["Messages"]
    assert "1 system" in roles
    assert "tool" in roles
    parts = {name: int(n.replace(",", "")) for name, n in (p.rsplit(" ", 1) for p in lines["Tokens"].split(", "))}
    told = int(bar.partition("window: ")[2].split()[0].replace(",", ""))
    assert sum(parts.values()) == told
    assert parts["summary"] > 0
    assert parts["messages"] > 0
    assert int(lines["Characters"].replace(",", "")) > 1000
    assert lines["Compressions"].startswith("1 (")
    assert "1 summary" in lines["Money"]
    assert "$" in lines["Money"]


async def test_messages_are_counted_as_the_provider_gets_them():
    agent, model = commanded(turns=3)
    answer = await said(agent, "/context")
    line = next(line for line in answer.splitlines() if line.startswith("Messages"))
    fresh = make_agent(model)
    request = await (await CompressionMiddleware().engine_of(fresh)).port.request()
    sent = await model.formatter.format([*request.messages, *agent.state.context])
    roles = Counter(one["role"] for one in sent)
    shares = ", ".join(f"{roles[role]} {role}" for role in ("system", "user", "assistant", "tool"))
    assert line == f"Messages: {len(sent)} as a provider counts them ({shares}), 3 turns"


async def test_detail_names_turns_the_largest_parts_pins_and_where_the_rest_is():
    agent, _ = commanded()
    await said(agent, "/compact")
    await said(agent, "/pin The deadline is Friday.")
    answer = await said(agent, "/context detail")
    assert "Largest:" in answer
    assert "result of fetch" in answer
    assert "The deadline is Friday." in answer
    assert "search_context" in answer.partition("Elsewhere:")[2]
    named = answer.partition("/explain ")[2].split()[0]
    assert "context" in await said(agent, f"/explain {named}")


async def test_clear_lets_the_agent_forget_and_recall_and_undo_still_find_it():
    offloader = memory_offloader()
    agent, model = commanded(offloader=offloader, script=["Fine."])
    await said(agent, "/compact")
    whole = text_of(agent.state.context)
    assert number_of("old-11") in whole
    answer = await said(agent, "/context clear")
    assert answer.startswith("Cleared: ")
    assert text_of(agent.state.context) == ""
    for topic in range(12):
        assert number_of(f"old-{topic}") not in summary_text(agent)
    await agent.reply(user("What do you know?"))
    assert number_of("old-11") not in text_of(model.requests[-1].messages)
    async for response in agent.toolkit.call_tool(call("search_context", query=number_of("old-11")), agent.state):
        last = response
    assert number_of("old-11") in text_of([AssistantMsg("x", last.content)])
    assert (await said(agent, "/undo")).startswith("Taken back")
    assert number_of("old-11") in text_of(agent.state.context)
    assert orphans(agent.state.context) == []


async def test_clear_keeps_what_is_pinned():
    agent, _ = commanded()
    await said(agent, "/pin The deadline is Friday.")
    await said(agent, "/context clear")
    assert text_of(agent.state.context) == "The deadline is Friday."


async def test_clear_of_a_context_of_two_words_works_too():
    agent, _ = commanded(turns=0)
    agent.state.context.extend([user("Hi"), AssistantMsg("scribe", [TextBlock(text="Hello")])])
    assert (await said(agent, "/context clear")).startswith("Cleared: 2 messages")
    assert text_of(agent.state.context) == ""
    assert "nothing stands" in await said(agent, "/context clear")


class DownStore(MemoryStore):
    """A store whose disk is full."""

    async def append(self, session_id: str, records: Any) -> str:
        msg = "the disk is full"
        raise StoreWriteError(msg)


async def test_clear_removes_nothing_where_nothing_can_be_stored():
    agent, _ = commanded(offloader=StoreOffloader(DownStore(), HostCodec()))
    before = text_of(agent.state.context)
    answer = await said(agent, "/context clear")
    assert "could not be stored" in answer
    assert text_of(agent.state.context) == before


async def test_clear_removes_nothing_where_there_is_no_place_for_it():
    agent, _ = commanded(offloader=None)
    before = text_of(agent.state.context)
    assert "has no offloader" in await said(agent, "/context clear")
    assert text_of(agent.state.context) == before


class WriteOnly:
    """An offloader that gives nothing back."""

    async def offload_context(self, session_id: str, msgs: Any) -> str:
        return "the cellar"

    async def offload_tool_result(self, session_id: str, tool_result: Any) -> str:
        return "the cellar"


async def test_clear_promises_no_way_back_where_there_is_none():
    config = ContextConfig(offload=OffloadConfig(local_copy=False))
    agent, _ = commanded(offloader=WriteOnly(), config=config)
    answer = await said(agent, "/context clear")
    assert "stored in 'the cellar'" in answer
    assert "search_context" not in answer
    assert "/undo" not in answer


async def test_a_memory_that_cannot_be_written_keeps_the_conversation():
    memory = MemoryMiddleware(store=DownStore())
    agent, _ = commanded(memory)
    before = text_of(agent.state.context)
    async with memory:
        assert "the disk is full" in await said(agent, "/context clear")
    assert text_of(agent.state.context) == before


@pytest.mark.row("C10")
async def test_what_was_cleared_is_in_memory_when_the_answer_comes():
    memory = MemoryMiddleware(store=MemoryStore())
    agent, _ = commanded(memory)
    async with memory:
        answer = await said(agent, "/context clear")
        assert "search_memory" in answer
        [hit, *_] = await (await memory.memory_of(agent)).search("numbers of old topics", 5)
        assert "looked up" in hit.text


async def test_a_seeds_key_changes_the_setting_that_it_stands_for():
    agent, _ = commanded()
    answer = await said(agent, "/config agent_max_context_tokens 80000")
    assert "triggers.max_tokens is 80,000 now" in answer
    assert agent.context_config.triggers.max_tokens == 80_000
    await said(agent, "/config agent_max_context_turns 30")
    assert agent.context_config.triggers.max_turns == 30
    await said(agent, "/config agent_max_steps 9")
    assert agent.context_config.history.max_tool_calls == 9


async def test_a_changed_budget_is_what_the_next_reply_goes_by():
    agent, _ = commanded(turns=12, script=["One.", "Two."])
    await agent.reply(user("Go on."))
    assert applied(agent) == []
    await said(agent, "/config agent_max_context_tokens 2000")
    await agent.reply(user("Go on."))
    assert len(applied(agent)) == 1


async def test_a_change_of_one_agent_leaves_the_config_that_others_share():
    shared = ContextConfig(triggers=TriggersConfig(max_turns=20))
    one, _ = commanded(config=shared)
    other, _ = commanded(config=shared)
    await said(one, "/config triggers.max_turns 30")
    assert (shared.triggers.max_turns, other.context_config.triggers.max_turns) == (20, 20)
    assert one.context_config.triggers.max_turns == 30


async def test_a_config_of_the_hosts_own_can_be_changed_too():
    agent, _ = commanded(config=HostContextConfig(trigger_ratio=0.7, reserve_ratio=0.2))
    await said(agent, "/config triggers.max_turns 30")
    config = agent.context_config
    assert (config.triggers.max_turns, config.trigger_ratio, config.reserve_ratio) == (30, 0.7, 0.2)


async def test_a_setting_is_shown_with_value_origin_and_what_it_takes():
    agent, _ = commanded(config=ContextConfig(triggers=TriggersConfig(max_turns=20)))
    given = await said(agent, "/config triggers.max_turns")
    assert given.startswith("triggers.max_turns = 20: set in the program")
    assert "takes a whole number of at least 1, or none" in given
    assert "the default" in await said(agent, "/config reserve_ratio")
    await said(agent, "/config agent_max_context_turns 30")
    changed = await said(agent, "/config agent_max_context_turns")
    assert "= 30: changed in this session, as agent_max_context_turns (the program has 20)" in changed


async def test_changes_are_listed_and_can_be_taken_back():
    agent, _ = commanded(config=ContextConfig(triggers=TriggersConfig(max_turns=20)))
    given = agent.context_config
    assert "Nothing was changed" in await said(agent, "/config")
    await said(agent, "/config agent_max_context_turns 30")
    assert "triggers.max_turns = 30, as agent_max_context_turns (the program has 20)" in await said(agent, "/config")
    assert "triggers.max_turns is 20 now" in await said(agent, "/config agent_max_context_turns reset")
    assert "Nothing was changed" in await said(agent, "/config")
    assert agent.context_config is given
    assert agent.state.middle_context.get("ctxkit.commands") is None


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/config agent_max_context_turns many", "whole number of at least 1"),
        ("/config agent_max_context_turns 0", "whole number of at least 1"),
        ("/config trigger_ratio 2", "at most 0.9"),
        ("/config reserve_ratio 0.85", "smaller than what triggers"),
        ("/config agent_max_context_turn 5", "did you mean agent_max_context_turns?"),
        ("/config privacy.redact off", "cannot be changed in a chat"),
        ("/config memory.bootstrap_names secrets.txt", "cannot be changed in a chat"),
        ("/config retention.mode enforce", "belongs to the program"),
        ("/config agents.defaults.compaction.mode fast", "give 'safeguard' or 'default'"),
    ],
)
async def test_a_change_that_cannot_be_is_answered_with_the_reason_and_changes_nothing(command, words):
    agent, _ = commanded()
    before, config = as_json(agent), agent.context_config
    assert words in await said(agent, command)
    assert as_json(agent) == before
    assert agent.context_config is config


@pytest.mark.parametrize(
    "text",
    ["/unknown thing", "/path/to/file", "/contextual", "/", "look at /context", "/context\nand this", "/help"],
)
async def test_what_is_no_command_of_these_is_left_to_the_agent(text):
    agent, model = commanded(script=["I shall."])
    assert await said(agent, text) == "I shall."
    assert text in text_of(model.requests[-1].messages)


async def test_commands_that_are_not_wanted_are_left_to_the_agent():
    agent, _ = commanded(script=["Mine."], commands=CommandsMiddleware(commands=["context"]))
    assert await said(agent, "/compact") == "Mine."
    assert "of the window" in await said(agent, "/context")


async def test_who_asks_for_structured_output_gets_that_and_no_answer_to_a_command():
    class Answer(BaseModel):
        number: int

    agent, model = commanded(script=[call("GenerateStructuredOutput", number=5), "Done."])
    reply = await agent.reply(user("/context"), structured_schema=Answer)
    assert "of the window" not in text_of([reply])
    assert "/context" in text_of(model.chats[0].messages), "the model was not asked"


async def test_messages_before_a_command_are_kept_for_the_agent():
    agent, model = commanded(script=["Yes."])
    answer = await agent.reply([user("Remember the blue door."), user("/context")])
    assert "of the window" in answer.get_text_content()
    await agent.reply(user("Which door?"))
    assert "blue door" in text_of(model.requests[-1].messages)


async def test_changes_last_with_the_session_over_a_restart():
    store = MemorySessionStore()
    state = AgentState(session_id="one")
    agent, _ = commanded(SessionMiddleware(store), state=state, turns=2)
    await agent.reply(user("Hello."))
    await said(agent, "/config agent_max_context_turns 30")
    later, _ = commanded(SessionMiddleware(store), state=AgentState(session_id="one"), turns=0, script=["Again."])
    await later.reply(user("Hello again."))
    assert later.context_config.triggers.max_turns == 30
    assert "triggers.max_turns = 30" in await said(later, "/config")


async def test_a_command_that_comes_first_after_a_restart_finds_the_saved_session():
    store = MemorySessionStore()
    agent, _ = commanded(SessionMiddleware(store), state=AgentState(session_id="one"), turns=2)
    await agent.reply(user("The key is under the mat."))
    later, _ = commanded(SessionMiddleware(store), state=AgentState(session_id="one"), turns=0)
    await said(later, "/context clear")
    last, _ = commanded(SessionMiddleware(store), state=AgentState(session_id="one"), turns=0, script=["Hm."])
    await last.reply(user("Where is the key?"))
    assert "under the mat" not in text_of(last.state.context)
    assert "under the mat" not in summary_text(last)


async def test_turns_that_a_chat_allowed_are_those_that_a_restart_counts_with():
    store = MemorySessionStore()
    agent, _ = commanded(SessionMiddleware(store, restore="texts"), state=AgentState(session_id="one"), turns=10)
    await agent.reply(user("Hello."))
    await said(agent, "/config agent_max_context_turns 42")
    later, _ = commanded(SessionMiddleware(store, restore="texts"), state=AgentState(session_id="one"), turns=0)
    await said(later, "/context")
    assert sum(message.role == "user" for message in later.state.context) == 7  # max(3, 42 / 6)


async def test_while_a_reply_runs_looking_is_answered_and_changing_is_refused():
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def waits(_messages):
        asked.set()
        await go_on.wait()
        return "Done."

    agent, _ = commanded(script=[waits])
    commands = Commands(agent)
    reply = asyncio.create_task(agent.reply(user("Go on.")))
    await asked.wait()
    assert "of the window" in await commands.handle("/context")
    for text in ("/context clear", "/compact", "/undo", "/pin this", "/config triggers.max_turns 3"):
        assert "A reply runs" in await commands.handle(text)
    assert "= none" in await commands.handle("/config triggers.max_turns")
    go_on.set()
    assert (await reply).get_text_content() == "Done."
    assert "is 3 now" in await commands.handle("/config triggers.max_turns 3")


async def test_while_a_reply_runs_a_saved_session_does_not_keep_looking_waiting():
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def waits(_messages):
        asked.set()
        await go_on.wait()
        return "Done."

    agent, _ = commanded(SessionMiddleware(MemorySessionStore()), script=[waits])
    reply = asyncio.create_task(agent.reply(user("Go on.")))
    await asked.wait()
    assert "of the window" in await said(agent, "/context")
    assert "A reply runs" in await said(agent, "/compact")
    go_on.set()
    assert (await reply).get_text_content() == "Done."


async def test_compact_takes_a_focus_and_leaves_the_receipt_of_a_compression_by_hand():
    agent, model = commanded()
    answer = await said(agent, "/compact the deadlines")
    [receipt] = applied(agent)
    assert answer.startswith(f"Compressed: {receipt.tokens_before:,} tokens before, {receipt.tokens_after:,} now.")
    assert receipt.plan_id in answer
    assert str(receipt.reason) == "manual"
    assert any("the deadlines" in text_of(request.messages) for request in model.requests)


async def test_preview_asks_no_model_and_undo_takes_the_newest_back():
    agent, model = commanded()
    preview = await said(agent, "/preview")
    assert preview.startswith("/compact would make")
    assert model.requests == []
    before = text_of(agent.state.context)
    await said(agent, "/compact")
    assert (await said(agent, "/undo")).startswith("Taken back")
    assert text_of(agent.state.context) == before
    assert "Nothing was taken back" in await said(agent, "/undo")


async def test_a_front_end_answers_commands_where_the_chat_does_not():
    agent, model = commanded(script=["Mine."], commands=CommandsMiddleware(in_chat=False))
    assert await said(agent, "/context") == "Mine."
    assert "of the window" in await Commands(agent).handle("/context")
    assert await Commands(agent).handle("What is /context?") is None
    assert len(model.requests) == 1


async def test_an_agent_without_the_middlewares_is_told_what_it_lacks():
    agent = make_agent(ScriptedModel(["Yes."]))
    with pytest.raises(ConfigError, match="has no CommandsMiddleware"):
        Commands(agent)
    alone = make_agent(ScriptedModel(["Yes."]), middlewares=[CommandsMiddleware()])
    assert "has no CompressionMiddleware" in await said(alone, "/context")
    with pytest.raises(ConfigError, match="did you mean context"):
        CommandsMiddleware(commands=["contex"])


async def test_a_command_while_a_call_waits_for_a_person_leaves_it_waiting():
    agent, _ = commanded(script=[*fetches(1), "Done."], tools=[])
    await agent.toolkit.add_tool(FunctionTool(fetch))
    await events_of(agent.reply_stream(user("Fetch it.")))
    assert agent.state.has_awaiting_tool_calls(agent.name)
    await said(agent, "/context clear")
    assert agent.state.has_awaiting_tool_calls(agent.name)


async def test_a_model_never_sees_a_command_or_its_answer():
    agent, model = commanded(script=["Yes."])
    await said(agent, "/context")
    await said(agent, "/config triggers.max_turns 30")
    await agent.reply(user("Go on."))
    request = json.dumps([message.model_dump(mode="json") for message in model.requests[-1].messages])
    assert "/context" not in request
    assert "/config" not in request
    assert "of the window" not in request


async def test_behind_the_session_middleware_commands_work_too():
    store = MemorySessionStore()
    session = SessionMiddleware(store)
    model = ScriptedModel(["Hello."], context_size=16_000)
    middlewares = [session, CommandsMiddleware(), CompressionMiddleware()]
    agent = make_agent(model, middlewares=middlewares, state=AgentState(session_id="one"))
    assert "is 30 now" in await said(agent, "/config triggers.max_turns 30")
    later, _ = commanded(SessionMiddleware(store), state=AgentState(session_id="one"), turns=0)
    assert "triggers.max_turns = 30" in await said(later, "/config")


async def test_a_session_that_another_owner_holds_is_left_alone_and_the_answer_says_who_has_it():
    locks = SessionLocks(timeout_s=0)
    store = MemorySessionStore()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def waits(_messages):
        asked.set()
        await go_on.wait()
        return "Done."

    kwargs = {"state": AgentState(session_id="one"), "turns": 2}
    one, _ = commanded(SessionMiddleware(store, locks=locks), script=[waits], **kwargs)
    other, _ = commanded(SessionMiddleware(store, locks=locks), state=AgentState(session_id="one"), turns=0)
    reply = asyncio.create_task(one.reply(user("Go on.")))
    await asked.wait()
    answer = await said(other, "/config triggers.max_turns 30")
    assert "scribe" in answer
    assert other.context_config.triggers.max_turns is None
    go_on.set()
    await reply
    assert "is 30 now" in await said(other, "/config triggers.max_turns 30")


async def test_what_was_done_and_could_not_be_saved_is_said_so():
    class FullStore(MemorySessionStore):
        is_full = False

        async def save(self, *args: Any, **kwargs: Any) -> None:
            if self.is_full:
                msg = "the disk is full"
                raise StoreWriteError(msg)
            await super().save(*args, **kwargs)

    store = FullStore()
    agent, _ = commanded(SessionMiddleware(store), turns=2)
    await agent.reply(user("Hello."))
    store.is_full = True
    answer = await said(agent, "/config triggers.max_turns 30")
    assert "is 30 now" in answer
    assert "could not be saved: the disk is full" in answer
