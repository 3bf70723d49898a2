"""CowAgent's document "Short-term Memory" (June 2026) from top to bottom, by `ContextConfig.profile("cowagent")`."""

import asyncio
import time
from pathlib import Path

import pytest
from agentscope.message import AssistantMsg, TextBlock, ToolResultBlock
from agentscope.state import AgentState

from ctxkit import (
    Commands,
    CommandsMiddleware,
    CompressionMiddleware,
    ContextConfig,
    FileStore,
    MemoryMiddleware,
    MemoryStore,
    SessionMiddleware,
    SqliteSessionStore,
    StoreWriteError,
)
from ctxkit.host._codec import HostCodec
from ctxkit.offload import StoreOffloader
from ctxkit.plan import Reason
from ctxkit.profiles import find_profile, keys_of
from ctxkit.sessions import MemorySessionStore
from ctxkit.testing import ScriptedModel, call, overflow_error
from tests.host.agents import (
    applied,
    make_agent,
    orphans,
    receipts,
    summary_text,
    text_of,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

ENTRY = "[DAILY]\n- Ticket AB-1234 was opened.\n[MEMORY]\nThe user waits for AB-1234."
STUB = "[Earlier messages truncated]"


def cowagent(memory, root: Path, /, *script, state=None, **settings):
    """Return an agent on profile `cowagent` and its model; what leaves is below `root`."""
    kwargs = {"context_size": 200_000, "memories": ENTRY, **settings.pop("model", {})}
    model = ScriptedModel(script or ["done"], **kwargs)
    agent = make_agent(
        model,
        config=ContextConfig.profile("cowagent", **settings),
        tools=(look,),
        offloader=StoreOffloader(FileStore(root), HostCodec()),
        middlewares=[CommandsMiddleware(), CompressionMiddleware(), memory],
        **({} if state is None else {"state": state}),
    )
    return agent, model


def look(topic: str, chars: int = 200) -> str:
    """Look a topic up.

    Args:
        topic (str): The topic.
        chars (int): How many characters.
    """
    return report(topic, chars)


def report(topic: str, chars: int) -> str:
    text = f"Begin of {topic}.\n" + words(chars // 4, seed=topic)
    return text[: chars - 12] + "\nend of it. "


def turn(number: int, *, chars: int = 200, calls: int = 1):
    """Return one turn that is over: a question, thinking aloud, so many calls, and the final reply."""
    content = [TextBlock(text=f"Let me look at {number}.")]
    for index in range(calls):
        made = call("look", topic=f"{number}-{index}", chars=chars)
        made.state = "finished"
        result = ToolResultBlock(id=made.id, name="look", output=[TextBlock(text=report(f"{number}-{index}", chars))])
        content += [made, result]
    return [
        user(f"Question {number}?"),
        AssistantMsg(name="scribe", content=[*content, TextBlock(text=f"Reply {number}.")]),
    ]


def turns(number: int, **kwargs):
    return [message for index in range(number) for message in turn(index, **kwargs)]


def questions(messages) -> list[int]:
    """Return the numbers of the turns of which the question is there as its own message."""
    texts = [block.text for message in messages if message.role == "user" for block in message.content]
    return [int(text.split()[1].rstrip("?")) for text in texts if text.startswith("Question ")]


def of_turns(agent):
    """Return the receipts of compressions; what memory brought in later is none."""
    return [receipt for receipt in applied(agent) if receipt.reason is not Reason.MEMORY]


def diary(root: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "memory").glob("????-??-??.md")))


async def written(memory) -> None:
    """Wait until memory has written what it was given."""
    await memory._tasks.finish(10)


# Context structure


@pytest.mark.row("C1")
async def test_all_calls_and_results_of_a_turn_stay_until_there_is_reason_to_trim(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path, *[call("look", topic=f"t{n}") for n in range(4)], "done", "again")
        await agent.reply(user("Look four topics up."))
        await agent.reply(user("And now?"))

    sent = text_of(model.chats[-1].messages)
    assert all(report(f"t{n}", 200) in sent for n in range(4))
    assert not applied(agent)


# Key configuration


@pytest.mark.row("C1", "C9")
@pytest.mark.parametrize(
    ("name", "default", "changed"),
    [
        ("agent_max_context_tokens", 50_000, 80_000),
        ("agent_max_context_turns", 20, 30),
        ("agent_max_steps", 15, 8),
    ],
)
async def test_each_key_has_the_documents_default_and_can_be_changed(name, default, changed):
    key, profile = keys_of("cowagent")[name], find_profile("cowagent")

    assert {field: profile.values[field].value for field in key.fields} == key.settings(default)
    for field in key.fields:
        section, _, setting = field.partition(".")
        if section != "session":
            config = ContextConfig.profile("cowagent", **{section: {setting: changed}})
            assert getattr(getattr(config, section), setting) == changed


@pytest.mark.row("C1")
async def test_a_turn_has_15_tool_calls_and_then_the_model_is_asked_to_answer_without_tools(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(
            memory, tmp_path, *[call("look", topic=f"t{n}") for n in range(15)], "That is all.", "Hi."
        )
        reply = await agent.reply(user("Look a lot up."))
        choices = [request.tool_choice for request in model.chats]
        await agent.reply(user("Thanks."))

    assert text_of([reply]).endswith("That is all.")
    assert choices == [None] * 15 + ["none"]
    assert "The limit of 15 tool calls a turn is reached" in text_of(model.chats[15].messages)
    assert "The limit of 15" not in text_of(model.chats[14].messages)
    assert model.chats[16].tool_choice is None  # a new turn


@pytest.mark.row("C1")
async def test_calls_are_counted_and_not_steps_and_those_over_the_limit_are_answered_without_being_run(tmp_path):
    ran = []

    def note(topic: str) -> str:
        """Note a topic.

        Args:
            topic (str): The topic.
        """
        ran.append(topic)
        return "noted"

    steps = [[call("note", topic=f"{step}-{n}") for n in range(6)] for step in range(3)]
    async with MemoryMiddleware(tmp_path) as memory:
        model = ScriptedModel([*steps, "That is all."], context_size=200_000)
        agent = make_agent(
            model,
            config=ContextConfig.profile("cowagent"),
            tools=(note,),
            middlewares=[CompressionMiddleware(), memory],
        )
        reply = await agent.reply(user("Note a lot."))

    assert len(ran) == 15
    assert text_of(model.chats[-1].messages).count("This call was not run") == 3
    assert [request.tool_choice for request in model.chats] == [None] * 3 + ["none"]
    assert orphans(model.chats[-1].messages) == []
    assert text_of([reply]).endswith("That is all.")


@pytest.mark.row("C1")
@pytest.mark.parametrize("window", [128_000, 200_000, 1_000_000])
async def test_the_budget_is_50000_tokens_whatever_the_window(tmp_path, window):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, _ = cowagent(memory, tmp_path, model={"context_size": window})
        await agent.compress_context()

    assert receipts(agent)[-1].limit_tokens == 50_000


# 1. Tool result truncation


@pytest.mark.row("C2")
@pytest.mark.parametrize(("chars", "is_cut"), [(20_000, False), (20_001, True), (90_000, True)])
async def test_results_of_earlier_turns_over_20000_characters_keep_beginning_and_end_with_a_notice(
    tmp_path, chars, is_cut
):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path)
        agent.state.context = [*turn(0, chars=chars), *turn(1)]
        whole = report("0-0", chars)
        await agent.reply(user("Go on."))
        [result] = [b for b in agent.state.context[1].content if b.type == "tool_result"]
        shown = text_of([AssistantMsg(name="x", content=[result])])
        stored = await agent.offloader.store.get(result.metadata["ctxkit"]["reference"]) if is_cut else b""

    assert (shown == whole) is not is_cut
    assert len(shown) <= 20_000
    assert shown.startswith("Begin of 0-0.")
    assert shown.endswith("end of it. ")
    assert ("<<<TRUNCATED>>>" in shown) is is_cut
    if is_cut:
        assert len(shown) > 19_000
        assert whole in stored.decode()
    assert shown in text_of(model.chats[0].messages)


@pytest.mark.row("C2")
async def test_results_of_the_running_turn_stay_whole_and_are_cut_once_when_it_is_over(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path, call("look", topic="big", chars=60_000), "one", "two", "three")
        await agent.reply(user("Look it up."))
        running = text_of(model.chats[1].messages)
        for number in range(3):
            await agent.reply(user(f"Go on {number}."))

    assert report("big", 60_000) in running
    shown = [
        [block for message in request.messages for block in message.content if block.type == "tool_result"]
        for request in model.chats[2:]
    ]
    assert [len(text_of([AssistantMsg(name="x", content=results)])) <= 20_000 for results in shown] == [True] * 3
    assert shown[0] == shown[1] == shown[2]  # the same bytes at each step
    assert [receipt.rules for receipt in applied(agent)] == [("old_results",)]


# 2. Turn trimming


@pytest.mark.row("C1", "C3")
@pytest.mark.parametrize(("complete", "left"), [(19, 19), (20, 10), (21, 11), (40, 20)])
async def test_over_20_turns_the_oldest_half_of_the_complete_ones_goes_rounded_down(tmp_path, complete, left):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path)
        agent.state.context = turns(complete, calls=3)
        await agent.reply(user("Go on."))

    kept = list(range(complete - left, complete))
    assert questions(agent.state.context) == kept
    assert orphans(model.chats[0].messages) == []
    assert len(of_turns(agent)) == (left < complete)


@pytest.mark.row("C3", "C4")
async def test_what_is_trimmed_is_stored_first_and_written_to_the_daily_file_by_one_call_of_the_model(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path)
        agent.state.context = turns(20)
        await agent.reply(user("Go on."))
        await written(memory)
        [receipt] = of_turns(agent)
        log = (tmp_path / "sessions" / agent.state.session_id / "context.jsonl").read_text()

    assert all(
        f"Question {number}?" in log and report(f"{number}-0", 200)[:60].splitlines()[0] in log for number in range(10)
    )
    assert "Question 10?" not in log
    assert f"<!-- ctxkit:entry {receipt.plan_id} -->" in diary(tmp_path)
    assert "- Ticket AB-1234 was opened." in diary(tmp_path)
    assert len(model.memory_requests) == 1
    assert not model.summary_requests


@pytest.mark.row("C3", "X1")
async def test_where_nothing_can_be_stored_no_turn_goes(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, _ = cowagent(memory, tmp_path)
        agent.offloader = StoreOffloader(FullStore(), HostCodec())
        agent.state.context = turns(20)
        await agent.reply(user("Go on."))

    assert questions(agent.state.context) == list(range(20))
    assert not applied(agent)


class FullStore(MemoryStore):
    """A store that takes nothing more."""

    async def append(self, *_, **__):
        msg = "the disk is full"
        raise StoreWriteError(msg)


@pytest.mark.row("C5")
async def test_the_summary_is_injected_in_the_background_into_the_first_user_message_from_the_next_turn_on(tmp_path):
    gate = asyncio.Event()

    async def later(_):
        await gate.wait()
        return ENTRY

    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(
            memory, tmp_path, "one", call("look", topic="t"), "two", "three", "four", model={"memories": later}
        )
        agent.state.context = turns(20)
        await agent.reply(user("Go on."))  # nobody waits for the model that writes
        await agent.reply(user("And on."))
        gate.set()
        await written(memory)
        await agent.reply(user("And on again."))
        await agent.reply(user("And the last."))

    assert "\nCompressions: 1 (the newest by trigger, " in (await Commands(agent).handle("/context") or "")
    firsts = [text_of(request.messages[1:2]) for request in model.chats]
    assert all(first.endswith("Question 10?") for first in firsts)
    assert [message.role for message in model.chats[0].messages][:3] == ["system", "user", "assistant"]
    assert all(STUB in first and "stored in" in first for first in firsts[:3])
    assert all("The user waits for AB-1234." not in first for first in firsts[:3])
    assert all(STUB not in first and "The user waits for AB-1234." in first for first in firsts[3:])
    assert firsts[3] == firsts[4]
    assert len(model.memory_requests) == 1
    assert [receipt.reason for receipt in applied(agent)] == [Reason.TRIGGER, Reason.MEMORY]


@pytest.mark.row("C5")
async def test_what_is_written_while_a_turn_runs_comes_with_the_next_turn_and_no_sooner(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:

        async def finish(_):
            await written(memory)
            return call("look", topic="t")

        agent, model = cowagent(memory, tmp_path, finish, "one", "two")
        agent.state.context = turns(20)
        await agent.reply(user("Go on."))
        await agent.reply(user("And on."))

    firsts = [text_of(request.messages[1:2]) for request in model.chats]
    assert "AB-1234" in diary(tmp_path)
    assert firsts[0] == firsts[1]
    assert ["The user waits for AB-1234." in first for first in firsts] == [False, False, True]


@pytest.mark.row("C5", "X1")
async def test_a_crash_before_the_summary_is_written_costs_nothing_it_comes_after_the_restart(tmp_path):
    never = asyncio.Event()

    async def hang(_):
        await never.wait()

    crashed = MemoryMiddleware(tmp_path)
    agent, _ = cowagent(crashed, tmp_path, model={"memories": hang}, memory={"close_timeout_s": 0})
    agent.state.context = turns(20)
    await agent.reply(user("Go on."))
    saved = agent.state.model_dump_json()
    await crashed.aclose()
    assert "AB-1234" not in diary(tmp_path)

    async with MemoryMiddleware(tmp_path) as memory:
        again, model = cowagent(memory, tmp_path, "one", "two", state=AgentState.model_validate_json(saved))
        await again.reply(user("Are you there?"))
        await written(memory)
        await again.reply(user("And on."))

    assert STUB in text_of(model.chats[0].messages[1:2])
    assert "The user waits for AB-1234." in text_of(model.chats[1].messages[1:2])
    assert diary(tmp_path).count("- Ticket AB-1234 was opened.") == 1


@pytest.mark.row("C3", "C5", "X12")
async def test_the_summary_and_the_trimming_can_be_taken_back_one_after_the_other(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, _ = cowagent(memory, tmp_path, "one", "two")
        agent.state.context = turns(20)
        await agent.reply(user("Go on."))
        await written(memory)
        stub = summary_text(agent)
        await agent.reply(user("And on."))
        steering = agent._compress_context_middlewares[0].steering(agent)
        first = await steering.undo()
        after_first = summary_text(agent)
        second = await steering.undo()

    assert (first.outcome, second.outcome) == ("undone", "undone")
    assert "AB-1234" not in after_first
    assert after_first == stub
    assert questions(agent.state.context) == list(range(20))
    assert summary_text(agent) == ""


@pytest.mark.row("C5")
async def test_later_trimmings_keep_the_summaries_that_were_injected_before(tmp_path):
    entries = iter(range(9))
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(
            memory,
            tmp_path,
            *["done"] * 20,
            model={"memories": lambda _: f"[DAILY]\n- Entry.\n[MEMORY]\nSummary {next(entries)}."},
            triggers={"max_turns": 4},
        )
        for number in range(9):
            await agent.reply(user(f"Question {number}?"))
            await written(memory)
    first = text_of(model.chats[-1].messages[1:2])

    assert len(of_turns(agent)) >= 2
    assert all(f"Summary {number}." in first for number in range(2))


# 3. Token budget trimming


@pytest.mark.row("C6")
@pytest.mark.parametrize("complete", [1, 4])
async def test_under_5_turns_each_keeps_its_first_user_text_and_last_reply(tmp_path, complete):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(
            memory, tmp_path, [call("look", topic="a"), call("look", topic="b")], "done", memory={"flush": True}
        )
        agent.state.context = turns(complete, calls=-(-15 // complete), chars=20_000)
        await agent.reply(user("Go on."))

    before = agent.state.context[: 2 * complete]
    assert text_of(before) == "\n".join(f"Question {n}?\nReply {n}." for n in range(complete))
    running = text_of(model.chats[1].messages[-1:])
    assert report("a", 200) in running
    assert report("b", 200) in running
    assert [receipt.rules for receipt in of_turns(agent)] == [("turn_texts",)]


@pytest.mark.row("C6")
@pytest.mark.parametrize(("complete", "left"), [(5, 3), (9, 5), (12, 6)])
async def test_from_5_turns_on_the_first_half_goes_to_memory_and_into_the_injected_summary(tmp_path, complete, left):
    chars = 330_000 // complete // 4
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path, "one", "two", model={"enforce": "cl100k"})
        agent.state.context = turns(complete, chars=chars, calls=4)
        await agent.reply(user("Go on."))
        await written(memory)
        await agent.reply(user("And on."))

    assert questions(agent.state.context) == list(range(complete - left, complete))
    assert [receipt.rules for receipt in of_turns(agent)] == [("drop_turns",)]
    assert "- Ticket AB-1234 was opened." in diary(tmp_path)
    assert "The user waits for AB-1234." in text_of(model.chats[1].messages[1:2])


@pytest.mark.row("C3", "C6")
async def test_the_stages_go_in_the_documents_order_results_then_turns_then_tokens(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, _ = cowagent(memory, tmp_path)
        agent.state.context = turns(20, chars=40_000)
        await agent.reply(user("Go on."))
        [receipt] = of_turns(agent)

    # 20 of 40,000 characters are cut to 20,000; 10 turns go; 10 of 20,000 are over 50,000 tokens, or are not.
    assert receipt.rules == ("old_results", "drop_turns")
    kept = questions(agent.state.context)
    assert kept in ([*range(10, 20)], [*range(15, 20)])
    assert receipt.tokens_after <= 50_000
    assert all(len(text_of([m])) < 20_300 for m in agent.state.context)


# 4. Overflow emergency handling


REFUSED = {"context_size": 200_000, "enforce": "cl100k", "limit": 30_000}


@pytest.mark.row("C7")
async def test_on_overflow_all_is_written_to_memory_and_results_and_texts_of_at_most_5_turns_are_cut_to_10000(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path, "done", model=REFUSED)
        agent.state.context = [*turns(8, chars=19_000), user("Question 8? " + words(6_000)), *turn(9)[1:]]
        await agent.reply(user("Go on."))
        await written(memory)

    refused, retried = model.chats
    assert refused.refused
    assert not retried.refused
    assert questions(retried.messages) == [5, 6, 7, 8]  # and the running turn
    results = [b for m in retried.messages for b in m.content if b.type == "tool_result"]
    sizes = [len(text_of([AssistantMsg(name="x", content=[result])])) for result in results]
    assert all(size <= 10_000 for size in sizes)
    assert sum(size > 9_000 for size in sizes) == 3
    [long] = [
        b.text for m in retried.messages for b in m.content if b.type == "text" and b.text.startswith("Question 8?")
    ]
    assert 9_000 < len(long) <= 10_000
    assert "<<<TRUNCATED>>>" in long
    told = "".join(text_of(request.messages) for request in model.memory_requests)
    assert all(f"Question {number}?" in told for number in range(9))
    assert "- Ticket AB-1234 was opened." in diary(tmp_path)
    assert questions(agent.state.context) == list(range(9))  # only the request was cut


@pytest.mark.row("C7", "C10")
async def test_still_over_the_whole_context_is_cleared_and_its_content_is_in_memory_and_in_the_store(tmp_path):
    refusals = [overflow_error("openai", limit_tokens=200_000, needed_tokens=needed) for needed in (260_000, 210_000)]
    script = (*refusals, call("look", topic="new"), "done", "thanks")
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path, *script)
        agent.state.context = turns(8, chars=15_000)
        reply = await agent.reply(user("Go on."))
        await agent.reply(user("And on."))
        await written(memory)
        found = await (await memory.memory_of(agent)).search("AB-1234")
        log = (tmp_path / "sessions" / agent.state.session_id / "context.jsonl").read_text()

    whole, cut, cleared, then = (questions(request.messages) for request in model.chats[:4])
    assert (whole, cut, cleared) == (list(range(8)), [4, 5, 6, 7], [])
    assert [text_of([m]) for m in model.chats[2].messages if m.role == "user"][-1].endswith("Go on.")
    assert text_of([reply]).endswith("done")
    assert then == questions(agent.state.context) == []  # the context itself, too
    assert report("new", 200) in text_of(model.chats[3].messages)  # what came since stays
    assert all(f"Question {number}?" in log for number in range(8))
    assert found
    assert applied(agent)[0].rules == ("clear_context",)


@pytest.mark.row("C5", "C7")
async def test_what_was_written_on_overflow_is_the_summary_of_what_leaves_later_and_is_not_written_twice(tmp_path):
    refusal = overflow_error("openai", limit_tokens=200_000, needed_tokens=260_000)
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path, refusal, "one", "two", "three")
        agent.state.context = turns(19, chars=15_000)
        await agent.reply(user("Go on."))
        await written(memory)
        await agent.reply(user("And on."))  # over 50,000 tokens as it is known by now
        await written(memory)
        await agent.reply(user("And again."))
    first = text_of(model.chats[-1].messages[1:2])

    assert of_turns(agent)
    assert "The user waits for AB-1234." in first
    assert diary(tmp_path).count("- Ticket AB-1234 was opened.") == 1


@pytest.mark.row("C5")
async def test_a_summary_that_was_cleared_with_the_context_does_not_come_back(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, model = cowagent(memory, tmp_path, "one", "two")
        agent.state.context = turns(20)
        await agent.reply(user("Go on."))
        await written(memory)
        agent.state.context.clear()
        agent.state.summary = ""
        await agent.reply(user("And on."))

    assert "AB-1234" not in text_of(model.chats[-1].messages)


@pytest.mark.row("C1", "C3")
async def test_a_greeting_before_the_first_question_is_no_turn(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, _ = cowagent(memory, tmp_path, "one", "two")
        agent.state.context = [AssistantMsg(name="scribe", content="Hello!"), *turns(19)]
        await agent.reply(user("Question 19?"))
        assert not applied(agent)
        await agent.reply(user("Question 20?"))

    assert questions(agent.state.context) == list(range(10, 21))
    assert "Hello!" not in text_of(agent.state.context)


# Session persistence


@pytest.mark.row("C8")
@pytest.mark.parametrize(("max_turns", "restored"), [(20, 3), (30, 5)])
async def test_a_restart_restores_the_newest_turns_as_user_text_and_final_reply(tmp_path, max_turns, restored):
    store = SqliteSessionStore(tmp_path / "sessions.db")
    overrides = {} if max_turns == 20 else {"max_turns": max_turns}
    model = ScriptedModel([step for n in range(6) for step in (call("look", topic=f"t{n}"), f"Reply {n}.")])
    async with SessionMiddleware.profile("cowagent", store, **overrides) as session:
        agent = make_agent(
            model, tools=(look,), middlewares=[session, CompressionMiddleware()], state=AgentState(session_id="s")
        )
        for number in range(6):
            await agent.reply(user(f"Question {number}?"))
    async with SessionMiddleware.profile("cowagent", store, **overrides) as session:
        again = make_agent(
            next_model := ScriptedModel(["Hello."]),
            tools=(look,),
            middlewares=[session, CompressionMiddleware()],
            state=AgentState(session_id="s"),
        )
        await again.reply(user("Are you there?"))

    sent = next_model.chats[0].messages
    assert questions(sent) == list(range(6 - restored, 6))
    assert all(f"Reply {n}." in text_of(sent) for n in range(6 - restored, 6))
    assert not any(block.type in {"tool_call", "tool_result"} for message in sent for block in message.content)
    assert find_profile("cowagent").section("retention") == {
        "mode": "enforce",
        "max_age_days": 30,
        "max_sessions": None,
        "keep_newest": 0,
    }


@pytest.mark.row("C8")
async def test_sessions_older_than_30_days_go_however_few_there_are():
    clock = {"now": time.time()}
    store = MemorySessionStore(clock=lambda: clock["now"])
    now = clock["now"]
    for name, days in (("old", 31), ("older", 40), ("new", 29)):
        clock["now"] = now - days * 86_400
        await store.save(name, {"session_id": name, "context": []})
    clock["now"] = now

    async with SessionMiddleware.profile("cowagent", store) as session:
        for _ in range(2):  # a guard lets one go in a pass
            await session.maintain()

    assert {row.session_id async for row in store.list()} == {"new"}


# Commands


@pytest.mark.row("C9")
async def test_the_configuration_file_of_the_document_gives_the_same_settings(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(
        '{"agent_max_context_tokens": 50000, "agent_max_context_turns": 20, "agent_max_steps": 15, "channel_type": "web"}'
    )
    loaded = await asyncio.to_thread(ContextConfig.from_file, file)

    assert (loaded.triggers.max_tokens, loaded.triggers.max_turns) == (50_000, 20)
    assert loaded.history.max_tool_calls == 15


@pytest.mark.row("C9")
async def test_the_commands_of_the_document_are_answered_and_hold_from_then_on(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        model = ScriptedModel(["done"], context_size=200_000, memories=ENTRY)
        agent = make_agent(
            model,
            config=ContextConfig.profile("cowagent"),
            offloader=StoreOffloader(FileStore(tmp_path), HostCodec()),
            middlewares=[CommandsMiddleware(), CompressionMiddleware(), memory],
        )
        agent.state.context = turns(21)
        commands = Commands(agent)
        shown = await commands.handle("/context")
        answers = [
            await commands.handle("/config agent_max_context_tokens 80000"),
            await commands.handle("/config agent_max_context_turns 30"),
        ]
        await agent.compress_context()
        await agent.reply(user("Go on."))
        kept = questions(agent.state.context)
        cleared = await commands.handle("/context clear")
        found = await (await memory.memory_of(agent)).search("AB-1234")

    assert "Messages: 106 as a provider counts them (1 system, 21 user, 63 assistant, 21 tool)" in shown
    assert "\nCharacters: " in shown
    assert all(answers)
    assert receipts(agent)[0].limit_tokens == 80_000
    assert kept == list(range(21))  # 22 turns are no longer too many
    assert cleared
    assert questions(agent.state.context) == []
    assert found


@pytest.mark.row("C9", "C10")
async def test_what_left_can_be_found_in_memory_after_the_context_is_cleared(tmp_path):
    async with MemoryMiddleware(tmp_path) as memory:
        agent, _ = cowagent(memory, tmp_path)
        agent.state.context = turns(20)
        await agent.reply(user("Go on."))
        await written(memory)
        agent.state.context.clear()
        agent.state.summary = ""
        [hit, *_] = await (await memory.memory_of(agent)).search("AB-1234")

    assert "AB-1234" in hit.text
