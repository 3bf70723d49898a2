"""Digitorn's document "Context Management" from top to bottom, by `ContextConfig.profile("digitorn")` and the real agent."""

import asyncio
import json
import logging
import math
from pathlib import Path

import pytest
from agentscope.agent import InjectionConfig
from agentscope.message import AssistantMsg
from agentscope.tool import FunctionTool, ToolGroup, Toolkit

from ctxkit import CompressionMiddleware, ConfigError, ContextConfig, RulesMiddleware, load_config_file
from ctxkit.profiles import find_profile, keys_of
from ctxkit.summary.reminder import TITLE as REMINDER
from ctxkit.testing import ScriptedModel, call, overflow_error
from ctxkit.tokens import message_chars
from tests.host.agents import (
    applied,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    orphans,
    receipts,
    summary_text,
    text_of,
    user,
    words,
)

pytestmark = pytest.mark.asyncio

COMPLETE_EXAMPLE = Path(__file__).parents[2] / "data" / "config" / "digitorn-complete.yaml"
SUMMARY = "discussed X, decided Y, found Z"
QUIET = {"inject_runtime_state": False} if "inject_runtime_state" in InjectionConfig.model_fields else {}


def digitorn(model, **settings):
    """Return an agent on profile `digitorn`; the host adds nothing of its own to the messages."""
    tools = settings.pop("tools", ())
    prompt = settings.pop("prompt", "system")
    return make_agent(
        model,
        config=ContextConfig.profile("digitorn", **settings),
        tools=tools,
        prompt=prompt,
        offloader=memory_offloader(),
        injection_config=InjectionConfig(**QUIET),
    )


def model(*script, context_size=8000, **kwargs):
    return ScriptedModel(script or ["done"], context_size=context_size, summaries={"summary": SUMMARY}, **kwargs)


def before(number, *, size=500):
    """Return the messages msg1 to msg<number>, of which the agent's greeting is the first."""
    texts = [f"msg{n} {words(size, seed=str(n))}" for n in range(1, number + 1)]
    return [AssistantMsg(name="scribe", content=text) if n % 2 == 0 else user(text) for n, text in enumerate(texts)]


def names(messages):
    """Return `msgN` of each message that has one."""
    texts = [message.content[0].text.split()[0] for message in messages if message.content[0].type == "text"]
    return [text for text in texts if text.startswith("msg")]


# Configuration


@pytest.mark.row("D2")
async def test_each_field_of_the_context_section_has_the_documents_default():
    section = {
        "max_tokens": 0,
        "output_reserved": 4096,
        "strategy": "summarize",
        "keep_recent": 10,
        "compression_trigger": 0.75,
        "summary_max_tokens": 1024,
        "auto_compact": True,
    }
    keys = keys_of("digitorn")
    profile = find_profile("digitorn")

    assert set(section) == set(keys)
    said = {field: value for name, default in section.items() for field, value in keys[name].settings(default).items()}
    assert said == {field: profile.values[field].value for field in said}
    assert ContextConfig.profile("digitorn").summary.model is None  # summary_brain


@pytest.mark.row("D2", "D3")
async def test_a_brains_own_section_wins_field_by_field_and_its_pressure_is_that_of_7000_tokens():
    brain = {
        "max_tokens": 8000,
        "output_reserved": 1000,
        "strategy": "truncate",
        "keep_recent": 6,
        "compression_trigger": 0.6,
    }
    settings: dict[str, dict[str, object]] = {}
    for name, value in brain.items():
        for field, converted in keys_of("digitorn")[name].settings(value).items():
            section, _, key = field.partition(".")
            settings.setdefault(section, {})[key] = converted
    agent = digitorn(model(context_size=32_000), **settings)

    # 0.60 * (8000 - 1000) = 4200 tokens of 4 characters.
    assert await pressure_point(agent) == 4200
    assert agent.context_config.summary.max_tokens == 1024  # of the execution level
    assert agent.context_config.ladder.strategy == "truncate"


async def pressure_point(agent) -> int:
    """Return the estimated tokens at which a compaction is due, found by growing the context."""
    low, high = 0, 40_000
    while high - low > 1:
        middle = (low + high) // 2
        agent.state.context = [user("x" * (4 * middle - len("system")))]
        await agent.compress_context()
        receipt = receipts(agent)[-1]
        low, high = (low, middle) if receipt.tokens_before >= receipt.limit_tokens else (middle, high)
    return high


# How auto-compact works


@pytest.mark.row("D2")
@pytest.mark.parametrize(("tokens", "compactions"), [(11_999, 0), (12_001, 1)])
async def test_before_a_model_call_it_compacts_where_a_quarter_of_the_characters_exceeds_the_trigger(
    tokens, compactions
):
    probe = model()
    await digitorn(probe, window={"max_tokens": 20_096}).reply(user("Go on."))
    first = probe.chats[0].messages
    agent = digitorn(scripted := model(), window={"max_tokens": 20_096})  # 0.75 * (20,096 - 4,096) = 12,000
    room = 4 * tokens - message_chars(first)
    agent.state.context = [message for n in range(20) for message in [padded(n, room // 20 + (n < room % 20))]]

    await agent.reply(user("Go on."))

    assert len(applied(agent)) == compactions
    assert len(scripted.summary_requests) == compactions
    if not compactions:
        assert message_chars(scripted.chats[0].messages) == 4 * tokens


def padded(number, chars):
    text = f"note {number} {words(chars, seed=str(number))}"[:chars]
    return user(text) if number % 2 == 0 else AssistantMsg(name="scribe", content=text)


@pytest.mark.row("D2")
async def test_with_auto_compact_off_only_what_would_not_fit_is_compacted():
    long = 6_000
    agent = digitorn(
        scripted := model("one", "two", context_size=16_384, enforce="cl100k"), triggers={"automatic": False}
    )
    agent.state.context = before(8, size=1_600)

    await agent.reply(user(words(500)))
    after_trigger = len(applied(agent))
    await agent.reply(user(words(long)))

    assert after_trigger == 0
    assert len(applied(agent)) == 1
    assert not any(request.refused for request in scripted.chats)


# Compaction strategies


@pytest.mark.row("D1")
@pytest.mark.parametrize(
    ("strategy", "line", "summaries"),
    [("truncate", "[Earlier messages truncated]", 0), ("summarize", f"[Summary: {SUMMARY}]", 1)],
)
async def test_of_eight_messages_the_system_the_line_and_the_three_newest_are_left(strategy, line, summaries):
    agent = digitorn(
        scripted := model(),
        ladder={"keep_messages": 3, "strategy": strategy},
        overflow={"output_reserve_tokens": 1000},
    )
    agent.state.context = before(7)

    await agent.reply(before(8)[-1])

    sent = scripted.chats[0].messages
    assert [message.role for message in sent] == ["system", "user", "user", "assistant", "user"]
    assert text_of(sent[:1]) == "system"
    assert line in text_of(sent[1:2]).splitlines()
    assert names(sent) == ["msg6", "msg7", "msg8"]
    assert len(scripted.summary_requests) == summaries
    if summaries:
        assert names(scripted.summary_requests[0].messages) == [f"msg{n}" for n in range(1, 9)]


# Context reminder after compaction


@pytest.mark.row("D5")
@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_after_a_compaction_a_small_toolset_is_listed_inline(strategy):
    agent = digitorn(
        scripted := model(),
        tools=(fetch,),
        ladder={"strategy": strategy, "keep_messages": 3},
        overflow={"output_reserve_tokens": 1000},
    )
    agent.state.context = before(7)

    await agent.reply(before(8)[-1])

    reminder = text_of(scripted.chats[0].messages[1:2]).partition(REMINDER)[2]
    assert "fetch" in reminder


@pytest.mark.row("D5")
async def test_after_a_compaction_a_large_toolset_is_listed_by_category_with_the_meta_tool():
    tools = [tool_named(f"github__tool_{n}") for n in range(25)]
    agent = digitorn(
        scripted := model(context_size=16_384),
        tools=tools,
        ladder={"keep_messages": 3},
        triggers={"pressure_ratio": 0.3},
    )
    agent.state.context = before(7)

    await agent.reply(before(8)[-1])

    reminder = text_of(scripted.chats[0].messages[1:2]).partition(REMINDER)[2]
    assert "github (25)" in reminder
    assert "github__tool_3" not in reminder


@pytest.mark.row("D5")
async def test_after_a_compaction_groups_that_are_switched_off_are_named_with_the_meta_tool_that_switches_them_on():
    groups = [
        ToolGroup(name, description=f"Tools for the {name}.", tools=[tool_named(f"{name}__{n}") for n in range(20)])
        for name in ("browser", "database")
    ]
    scripted = model(context_size=16_384)
    agent = make_agent(
        scripted,
        config=ContextConfig.profile("digitorn", ladder={"keep_messages": 3}, triggers={"pressure_ratio": 0.3}),
        offloader=memory_offloader(),
        injection_config=InjectionConfig(**QUIET),
        toolkit=Toolkit(tools=[tool_named("fetch")], tool_groups=groups),
    )
    agent.state.context = before(7)

    await agent.reply(before(8)[-1])

    reminder = text_of(scripted.chats[0].messages[1:2]).partition(REMINDER)[2]
    assert "`reset_tools` switches on and off: browser, database; call it when you need one." in reminder


def tool_named(name, answer="ok"):
    def tool(pattern: str = "") -> str:
        """Look for something.

        Args:
            pattern (str): What to look for.
        """
        return answer

    return FunctionTool(tool, name=name, is_read_only=True)


# Tool result truncation


GUIDANCE = """\
RESULT TRUNCATED: showing {kept} of 5000 results from filesystem.find.
The full result was too large for the context window.
To see more results, you can:
- Use a more specific pattern or filter (e.g. '*.py', 'src/**')
- Search for a specific filename or keyword instead of listing everything
- Ask the user to narrow their request
Do NOT guess or invent results you haven't seen. Only report what is shown above."""


@pytest.mark.row("D6")
async def test_of_5000_paths_the_first_200_are_shown_and_the_guidance_says_so():
    paths = [
        f"/home/user/projects/survey/services/payments/adapters/{n:04}/src/handlers/incoming/requests/module_{n:04}/file_{n:04}.py"
        for n in range(5000)
    ]
    find = tool_named("filesystem.find", json.dumps(paths, indent=1))
    # Half of what is available is (17,680 - 4,096) / 2 = 6,792 tokens.
    asked = call("filesystem.find", pattern="*")
    asked.id = "call_find"  # ids stand in the reference, and so take part of the room
    scripted = model(asked, "done", context_size=17_680, enforce="cl100k")
    agent = digitorn(scripted, tools=[find])
    agent.state.session_id = "session_find"

    await agent.reply(user("List all files."))

    shown = text_of(scripted.chats[1].messages)
    assert GUIDANCE.format(kept=200) in shown
    assert [path for path in paths if path in shown] == paths[:200]
    result_tokens = scripted.chats[1].input_tokens - scripted.chats[0].input_tokens
    assert 0.9 * 6792 < result_tokens <= 6792


@pytest.mark.row("D6")
async def test_a_result_of_less_than_half_of_what_is_available_stays_whole_however_long_it_is():
    paths = [f"/home/user/project/src/module_{n:04}/file_{n:04}.py" for n in range(3000)]
    find = tool_named("filesystem.find", json.dumps(paths, indent=1))
    scripted = model(call("filesystem.find", pattern="*"), "done", context_size=131_072)
    agent = digitorn(scripted, tools=[find])

    await agent.reply(user("List all files."))

    assert json.dumps(paths, indent=1) in text_of(scripted.chats[1].messages)


# Compaction cooldown


@pytest.mark.row("D7")
async def test_after_a_compaction_two_turns_go_without_one_though_the_pressure_stays_above_the_trigger():
    size = {"context_size": 16_384}
    agent = digitorn(scripted := model(*["done"] * 9, **size), overflow={"output_reserve_tokens": 1000})
    agent.state.context = before(24, size=700)  # the ten that are kept are over the trigger by themselves

    compactions = []
    for turn in range(8):
        await agent.reply(user(f"Turn {turn}. {words(40, seed=str(turn))}"))
        compactions.append(len(applied(agent)))

    assert compactions[:3] == [1, 1, 1]
    assert len(scripted.summary_requests) == compactions[-1] <= 3


# Summary brain


@pytest.mark.row("D4")
async def test_a_summary_brain_makes_the_summaries_and_the_agents_model_none():
    brain = ScriptedModel(summaries={"summary": "from the small model"}, model="qwen2.5:3b", context_size=32_000)
    agent = digitorn(
        scripted := model(),
        summary={"model": brain},
        ladder={"keep_messages": 3},
        overflow={"output_reserve_tokens": 1000},
    )
    agent.state.context = before(7)

    await agent.reply(before(8)[-1])

    assert not scripted.summary_requests
    assert len(brain.summary_requests) == 1
    assert "[Summary: from the small model]" in summary_text(agent)


@pytest.mark.row("D4")
async def test_where_the_brain_fails_or_is_not_there_the_agents_own_model_makes_the_summary():
    failing = ScriptedModel(summaries=RuntimeError("connection refused"), model="qwen2.5:3b", context_size=32_000)
    for brain in (failing, None):
        agent = digitorn(
            scripted := model(),
            summary={"model": brain},
            ladder={"keep_messages": 3},
            overflow={"output_reserve_tokens": 1000},
        )
        agent.state.context = before(7)

        await agent.reply(before(8)[-1])

        assert scripted.summary_requests
        assert f"[Summary: {SUMMARY}]" in summary_text(agent)


@pytest.mark.row("D1")
async def test_where_no_model_makes_a_summary_it_is_collected_by_code_and_stands_on_the_same_line():
    agent = digitorn(
        ScriptedModel(["done"], context_size=8000, summaries=RuntimeError("connection refused")),
        ladder={"keep_messages": 3},
        overflow={"output_reserve_tokens": 1000},
    )
    agent.state.context = before(7)

    await agent.reply(before(8)[-1])

    assert names(agent.state.context) == ["msg6", "msg7", "msg8"]
    assert "[Summary: [Collected by code" in summary_text(agent)


# Emergency compaction


@pytest.mark.row("D8")
async def test_on_overflow_half_the_window_and_half_of_keep_recent_are_left_without_a_summary_and_it_is_retried_once():
    agent = digitorn(
        scripted := model("done", context_size=32_000, enforce="cl100k", limit=6_000), triggers={"pressure_ratio": 0.9}
    )
    agent.state.context = before(19, size=300)

    await agent.reply(before(20, size=300)[-1])

    refused, retried = scripted.chats
    assert refused.refused
    assert not retried.refused
    assert not scripted.summary_requests
    assert retried.input_tokens <= 0.5 * 32_000
    assert names(retried.messages) == [f"msg{n}" for n in range(16, 21)]  # 10 // 2
    line, _, note = text_of(retried.messages[1:2]).partition("\n")
    assert line == "[Earlier messages truncated]"
    assert REMINDER in note
    assert text_of(retried.messages[2:]) == text_of(before(20, size=300)[-5:])


@pytest.mark.row("D8")
async def test_on_overflow_what_is_oversized_among_the_newest_is_cut_too_and_a_second_refusal_is_raised():
    agent = digitorn(
        scripted := model(context_size=32_000, enforce="cl100k", limit=6_000), triggers={"pressure_ratio": 0.9}
    )
    agent.state.context = [*before(4, size=300), AssistantMsg(name="scribe", content=f"msg5 {words(9_000)}")]

    await agent.reply(before(6, size=300)[-1])

    refused, retried = scripted.chats
    assert refused.refused
    assert not retried.refused
    assert "<<<TRUNCATED>>>" in text_of(retried.messages)
    assert "msg6" in names(retried.messages)


@pytest.mark.row("D8")
async def test_the_model_is_asked_again_once_and_no_more():
    refusals = [overflow_error("openai", limit_tokens=31_000, needed_tokens=33_000 - 1_000 * n) for n in range(3)]
    agent = digitorn(scripted := model(*refusals, context_size=32_000))
    agent.state.context = before(9, size=600)

    with pytest.raises(Exception, match="maximum context length"):
        await agent.reply(before(6, size=300)[-1])

    assert len(scripted.chats) == 2


# Provider auto-detection


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("deepseek-chat", 131_072),
        ("gpt-4o", 128_000),
        ("gpt-4o-mini", 128_000),
        ("o3", 200_000),
        ("o3-mini", 200_000),
        ("llama-3.3-70b-versatile", 128_000),
        ("mistral-large-latest", 128_000),
    ],
)
async def test_the_window_of_a_known_model_is_the_documents(name, window):
    agent = digitorn(ScriptedModel(model=name, context_size=0), triggers={"chars_per_token": None})

    await agent.compress_context()

    assert receipts(agent)[-1].limit_tokens == math.ceil(0.75 * (window - 4096))


@pytest.mark.row("D10")
async def test_the_provider_is_asked_before_the_table_and_an_unknown_model_must_say():
    asked = digitorn(ScriptedModel(model="gpt-4o", context_size=64_000), triggers={"chars_per_token": None})
    unknown = digitorn(ScriptedModel(model="qwen2.5:14b", context_size=0))
    told = digitorn(ScriptedModel(["done"], model="qwen2.5:14b", context_size=0), window={"max_tokens": 8_000})

    await asked.compress_context()
    with pytest.raises(ConfigError, match=r"'qwen2.5:14b' is not known"):
        await unknown.reply(user("Hello."))
    await told.reply(user("Hello."))

    assert receipts(asked)[-1].limit_tokens == math.ceil(0.75 * (64_000 - 4096))


# Safe split points


@pytest.mark.row("D11")
@pytest.mark.parametrize("keep", range(1, 13))
@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_wherever_the_split_would_fall_a_call_and_its_result_stay_together(keep, strategy):
    agent = digitorn(
        scripted := model(context_size=16_384),
        ladder={"keep_messages": keep, "strategy": strategy},
        triggers={"pressure_ratio": 0.3},
    )
    agent.state.context = history(6, size=400)

    await agent.reply(user("Go on."))

    assert len(applied(agent)) == 1
    assert orphans(agent.state.context) == orphans(scripted.chats[0].messages) == []


# The complete example


@pytest.mark.row("D2", "D3", "D4", "D7", "D9")
async def test_the_complete_example_is_loaded_and_runs_as_the_document_says(caplog):
    caplog.set_level(logging.INFO, logger="ctxkit")
    brain = ScriptedModel(summaries={"summary": SUMMARY}, model="qwen2.5:3b", context_size=32_000)
    file = await asyncio.to_thread(load_config_file, COMPLETE_EXAMPLE, environment={"DEEPSEEK_API_KEY": "sk-none"})
    loaded = file.config("assistant")
    config = ContextConfig.from_loaded(loaded, make_model=lambda _: brain)
    topics = [fetches(1, size=4_300, prefix=f"turn-{n}") for n in range(8)]
    script = [step for calls in topics for step in (*calls, f"That is all. {words(60)}")]
    # deepseek-chat names no window: the table has 131,072 for it.
    scripted = ScriptedModel(script, model="deepseek-chat", context_size=0, enforce="cl100k", limit=131_072)
    agent = make_agent(
        scripted,
        config=config,
        prompt="You are a test assistant. Be detailed in your responses.",
        offloader=memory_offloader(),
        injection_config=InjectionConfig(**QUIET),
        middlewares=[RulesMiddleware(loaded.rules), CompressionMiddleware()],
    )
    agent.state.context = [
        AssistantMsg(name="scribe", content="Context management test. Each exchange fills the context.")
    ]

    compactions, estimates, reminded = [], [], []
    for turn in range(8):
        await agent.reply(user(f"Turn {turn + 1}: look up the next one."))
        compactions.append(len(applied(agent)))
        estimates.append(message_chars(scripted.chats[-1].messages) // 4)
        reminded.append("Reminder: you have been chatting for 5 turns." in text_of(scripted.chats[-1].messages))

    assert [rule.id for rule in loaded.rules] == ["_auto_compact", "pressure_log", "turn5_reminder"]
    # From the third turn on it is over 15% of 131,072 - 4,096; two turns of cooldown follow, the pressure is over it again.
    assert estimates[1] < 0.15 * (131_072 - 4_096) < max(estimates[3], estimates[4])
    assert compactions == [0, 0, 1, 1, 1, 2, 2, 2]
    assert len(brain.summary_requests) == compactions[-1]
    assert not scripted.summary_requests
    assert f"[Summary: {SUMMARY}]" in summary_text(agent)
    assert summary_text(agent).count(REMINDER) == 1
    assert reminded.index(True) == 4  # turn5_reminder
    logged = [record.getMessage() for record in caplog.records if "Turn 1: ~" in record.getMessage()]
    assert len(logged) == 2, "pressure_log runs before each call of the model"
