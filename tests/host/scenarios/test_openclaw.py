"""OpenClaw's document "Context Management" from top to bottom, by the profile `openclaw` and the real agent."""

import asyncio
import json
import logging
import os
import re
import time
from pathlib import Path

import pytest
from agentscope.message import AssistantMsg, TextBlock, ToolCallBlock, ToolResultBlock
from agentscope.state import AgentState

from ctxkit import (
    CompressionMiddleware,
    ConfigError,
    ContextConfig,
    MemoryMiddleware,
    MemorySessionStore,
    SessionKey,
    SessionLockedError,
    SessionMiddleware,
    TranscriptSessionStore,
    load_config_file,
)
from ctxkit.host.session import _compression_s
from ctxkit.profiles import find_profile, keys_of
from ctxkit.sessions import GLOBAL, PROCESS_LANES, SessionEntry, SessionLocks
from ctxkit.sessions.repair import MISSING_RESULT
from ctxkit.sessions.transcript import file as transcript_file
from ctxkit.sessions.transcript import index
from ctxkit.summary import stages
from ctxkit.summary.extractive import NO_HISTORY
from ctxkit.summary.render import FAILURES_TITLE
from ctxkit.summary.state import MOST_FAILURES
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
    words,
)
from tests.host.session_agents import QUIET, row_of
from tests.host.summaries import GOOD

pytestmark = pytest.mark.asyncio

KEY = SessionKey(agent_id="main", provider="telegram", kind="dm", user_id="ada")
CONSTANTS = {name: value.value for name, value in find_profile("openclaw").constants.items()}
DAY_S = 86_400.0


def model(*script, context_size=200_000, **kwargs):
    return ScriptedModel(script or ["done"], context_size=context_size, **kwargs)


def openclaw(scripted, *, session_id=str(KEY), middlewares=None, offloader=None, **settings):
    """Return an agent on profile `openclaw`; summaries are made when they are due, so that their moment can be told."""
    settings["summary"] = {"prepare": False, **settings.get("summary", {})}
    agent_settings = {name: settings.pop(name) for name in ("tools", "prompt") if name in settings}
    return make_agent(
        scripted,
        config=ContextConfig.profile("openclaw", **settings),
        middlewares=middlewares,
        state=AgentState(session_id=session_id),
        offloader=offloader or memory_offloader(),
        injection_config=QUIET,
        **agent_settings,
    )


async def trigger_of(agent):
    await agent.compress_context()
    return receipts(agent)[-1].limit_tokens


def folder_of(root):
    return root / "agents" / "main" / "sessions"


def index_of(root):
    return json.loads((folder_of(root) / "sessions.json").read_text())


# Session persistence


@pytest.mark.row("O1")
async def test_a_session_is_a_jsonl_file_below_its_agent_with_a_message_a_line(tmp_path):
    async with SessionMiddleware.profile("openclaw", TranscriptSessionStore(tmp_path)) as session:
        agent = openclaw(model("Hello, Ada."), session_id="s-1", middlewares=[session, CompressionMiddleware()])
        await agent.reply(user("Hello."))

    lines = (folder_of(tmp_path) / "s-1.jsonl").read_text().splitlines()
    header, *messages = map(json.loads, lines)
    assert header["type"] == "session"
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["content"][0]["text"] == "Hello, Ada."


@pytest.mark.row("O1", "O3")
async def test_the_index_has_of_each_session_what_the_document_names(tmp_path):
    before_ms = time.time() * 1000
    async with SessionMiddleware.profile("openclaw", TranscriptSessionStore(tmp_path)) as session:
        threaded = str(KEY) + ":thread:123"
        agent = openclaw(model("Hello."), session_id=threaded, middlewares=[session, CompressionMiddleware()])
        events = await events_of(agent.reply_stream(user("Hello.")))
        await agent.compress_context()

    (end,) = [event for event in events if event.type == "MODEL_CALL_END"]
    (row,) = index_of(tmp_path).values()
    assert row["sessionId"] == threaded
    assert Path(row["sessionFile"]).parent == folder_of(tmp_path)
    assert row["sessionFile"].endswith(".jsonl")
    assert before_ms - 1 <= row["updatedAt"] <= time.time() * 1000 + 1
    assert row["contextTokens"] == 200_000
    assert (row["totalTokens"], row["totalTokensFresh"]) == (end.input_tokens + end.output_tokens, True)
    assert row["compactionCount"] == 0
    assert row["delivery"] == {"channel": "telegram", "peer": "ada", "thread": "123"}


@pytest.mark.row("O1", "O4", "O19")
async def test_the_documents_constants_are_the_codes_own():
    assert {
        "seconds that a cached index is good for": index.CACHE_S,
        "tries of a rename": index._TRIES,
        "seconds between two tries of a rename": index._PAUSE_S,
        "bytes read ahead of a session's file": transcript_file.PREWARM_BYTES,
        "least messages in a part of a staged summary": stages._LEAST_MESSAGES,
        "tool failures in a summary": MOST_FAILURES,
        "seconds that a compression may hold a lock beyond its time-out": _compression_s(openclaw(model())) - 300,
    } == CONSTANTS
    assert list(CONSTANTS.values()) == [45.0, 5, 0.05, 4096, 4, 8, 120.0]


@pytest.mark.row("O2")
@pytest.mark.parametrize("mode", ["warn", "enforce"])
async def test_sessions_go_after_30_days_and_beyond_500_the_oldest_or_are_reported(mode):
    clock = {"now": 0.0}
    store = MemorySessionStore(clock=lambda: clock["now"])
    now = time.time()
    ages = [*(DAY_S * 31 for _ in range(3)), *(60.0 * n for n in range(505, 0, -1))]
    for number, age in enumerate(ages):
        clock["now"] = now - age
        await store.save(f"s-{number}", {"session_id": f"s-{number}", "context": []})
    clock["now"] = now

    async with SessionMiddleware.profile("openclaw", store, retention={"mode": mode, "max_ratio": 1.0}) as session:
        report = await session.maintain()
        left = {row.session_id async for row in store.list()}

    # Three are too old, and with five more, the oldest, there are 500.
    assert set(report.removed) == {f"s-{number}" for number in range(8)}
    assert len(left) == (500 if mode == "enforce" else 508)
    assert find_profile("openclaw").section("retention")["mode"] == "warn"


@pytest.mark.row("O2")
async def test_an_index_over_10_mb_is_set_aside_and_three_backups_are_kept(tmp_path):
    store = TranscriptSessionStore(tmp_path)
    async with SessionMiddleware.profile("openclaw", store, retention={"mode": "enforce"}) as session:
        for size in (9_000_000, *[10_000_000] * 5):
            entry = SessionEntry(session_id="s-1", updated_at=0.0, delivery={"peer": "x" * size})
            await store.save("s-1", {"session_id": "s-1", "context": []}, entry=entry)
            report = await session.maintain()
            assert report.is_rotated == (size >= 10_000_000)

    names = sorted(path.name for path in folder_of(tmp_path).iterdir() if path.name.startswith("sessions.json"))
    assert names[0] == "sessions.json"
    assert len(names) == 1 + 3
    assert all(name.startswith("sessions.json.bak.") for name in names[1:])


# Session keys and history limits


@pytest.mark.row("O3", "O5")
@pytest.mark.parametrize(
    ("session_id", "turns"),
    [
        ("agent:main:telegram:dm:ada", 2),
        ("agent:main:telegram:direct:ada:thread:123", 2),
        ("agent:main:telegram:dm:bob:topic:456", 3),
        ("agent:main:telegram:channel:-100", 4),
        ("agent:main:telegram:group:-100:thread:123", 4),
        ("agent:main:whatsapp:dm:ada", 6),
    ],
)
async def test_before_the_run_the_last_user_turns_are_left_as_the_sessions_key_says(session_id, turns):
    config = {"telegram": {"historyLimit": 4, "dmHistoryLimit": 3, "dms": {"ada": {"historyLimit": 2}}}}
    ((section, channels),) = keys_of("openclaw")["channels"].settings(config).items()
    assert section == "history.channels"
    agent = openclaw(scripted := model(), session_id=session_id, history={"channels": channels})
    agent.state.context = history(6, size=20)

    await agent.reply(user("And now?"))

    asked = [text_of([message]) for message in scripted.chats[0].messages if message.role == "user"]
    assert [text.partition(":")[0] for text in asked[:-1]] == [f"Question {n}" for n in range(6 - turns, 6)]
    assert not scripted.summary_requests


@pytest.mark.row("O5", "O7")
@pytest.mark.parametrize(("kind", "peer", "turns"), [("dm", "123456", 5), ("direct", "7", 20), ("group", "7", 50)])
async def test_its_own_configuration_file_says_the_limits_and_the_mode(kind, peer, turns):
    loaded = await asyncio.to_thread(load_config_file, Path(__file__).parents[2] / "data" / "config" / "openclaw.json")
    config = ContextConfig.from_loaded(loaded.config())
    agent = make_agent(
        scripted := model(),
        config=config,
        state=AgentState(session_id=f"agent:main:telegram:{kind}:{peer}"),
        offloader=memory_offloader(),
        injection_config=QUIET,
    )
    agent.state.context = history(55, size=5)

    await agent.reply(user("And now?"))

    asked = [message for message in scripted.chats[0].messages if message.role == "user"]
    assert len(asked) == turns + 1
    assert (config.window.history_margin, config.window.reserve_floor_tokens) == (1.2, 20_000)


# Session locking


@pytest.mark.row("O4")
async def test_the_lock_is_a_file_with_pid_and_time_and_is_held_once_however_often_it_is_taken(tmp_path):
    seen = []

    async def look(topic: str) -> str:
        """Look at the lock.

        Args:
            topic (str): Anything.
        """
        (lock,) = folder_of(tmp_path).glob("*.jsonl.lock")
        seen.append(json.loads(await asyncio.to_thread(lock.read_text)))
        await session.save(agent)  # nested
        return "seen"

    async with SessionMiddleware.profile("openclaw", TranscriptSessionStore(tmp_path)) as session:
        agent = openclaw(
            model(call("look", topic="lock"), "done"),
            tools=[look],
            middlewares=[session, CompressionMiddleware()],
        )
        await agent.reply(user("Look."))

    assert seen[0]["pid"] == os.getpid()
    assert abs(seen[0]["createdAt"] / 1000 - time.time()) < 60
    settings = find_profile("openclaw").section("locks")
    assert settings == {"timeout_s": 10.0, "max_hold_s": 300.0, "watchdog_s": 60.0, "release_on_signals": True}


# Context window guards


@pytest.mark.row("O6")
@pytest.mark.parametrize(
    ("claimed", "window", "tokens"),
    [
        pytest.param(64_000, {"max_tokens": 60_000}, 60_000, id="the config"),
        pytest.param(64_000, {}, 64_000, id="then the model"),
        pytest.param(64_000, {"cap_tokens": 56_000}, 56_000, id="at most the cap"),
        pytest.param(0, {}, 200_000, id="then the default"),
    ],
)
async def test_the_window_is_resolved_in_the_documents_order(claimed, window, tokens):
    agent = openclaw(model(context_size=claimed, model="nobody-knows"), window=window)

    assert await history_budget(agent) == 0.6 * tokens


async def history_budget(agent):
    """Return the tokens that the messages may have, told by the trigger of a context that has none."""
    await agent.compress_context()
    receipt = receipts(agent)[-1]
    return receipt.limit_tokens - receipt.tokens_before


@pytest.mark.row("O6")
async def test_under_16_000_tokens_it_refuses_to_start_and_under_32_000_it_warns(caplog):
    with pytest.raises(ConfigError, match=r"16,?000"):
        await openclaw(small := model(context_size=15_999)).reply(user("Hello."))
    assert not small.requests

    with caplog.at_level(logging.WARNING):
        events = await events_of(openclaw(model(context_size=31_999)).reply_stream(user("Hello.")))
    assert "window.small" in told(events)
    assert "32000" in caplog.text.replace(",", "")
    assert "window.small" not in told(await events_of(openclaw(model(context_size=32_000)).reply_stream(user("Hi."))))


# Token budgeting


@pytest.mark.row("O7")
async def test_the_history_has_half_of_200_000_tokens_and_in_safeguard_120_000():
    plain = openclaw(model(), window={"history_margin": 1.0})
    safeguard = openclaw(model())

    assert await history_budget(plain) == 100_000
    assert await history_budget(safeguard) == 120_000
    mode = keys_of("openclaw")["agents.defaults.compaction.mode"]
    assert mode.settings("safeguard") == {"window.history_margin": 1.2}
    assert safeguard.context_config.window.history_margin == 1.2


@pytest.mark.row("O7")
async def test_the_reserve_floor_is_20_000_tokens_whatever_the_rest_would_allow():
    agent = openclaw(model(), window={"history_ratio": 1.0}, prompt=words(3000))

    assert await trigger_of(agent) == 180_000
    assert agent.context_config.window.reserve_floor_tokens == 20_000


@pytest.mark.row("O7")
async def test_estimates_are_a_fifth_higher_than_what_is_counted():
    plain, raised = openclaw(model(), window={"estimate_factor": 1.0}), openclaw(model())
    for agent in (plain, raised):
        agent.state.context = history(10)
        await agent.compress_context()

    assert receipts(raised)[0].tokens_before == pytest.approx(1.2 * receipts(plain)[0].tokens_before, rel=0.01)


# Compaction


@pytest.mark.row("O7")
@pytest.mark.parametrize(("turns", "is_due"), [(46, False), (60, True)])
async def test_over_its_budget_the_history_loses_its_oldest_half_and_pairs_stay_whole(turns, is_due):
    agent = openclaw(model(context_size=40_000, summaries=GOOD))  # 24,000 for the history, counted a fifth too high
    agent.state.context = history(turns, size=330)

    await agent.compress_context()

    (receipt,) = receipts(agent)
    assert (receipt.outcome == "applied") == is_due
    assert (receipt.tokens_before >= receipt.limit_tokens) == is_due
    if is_due:
        stayed = len(agent.state.context) / (2 * turns)
        assert 0.4 < stayed <= 0.5
        assert not orphans(agent.state.context)


class Trace:
    """What happened, in order."""

    def __init__(self, monkeypatch):
        self.steps = []
        self._patch = monkeypatch

    def note(self, step):
        if not self.steps or self.steps[-1] != step:
            self.steps.append(step)

    def calls(self, owner, name, step, *, behind=False, is_async=False):
        """Note each call of a function, before it or when it has ended."""
        real = getattr(owner, name)

        def traced(*args, **kwargs):
            if not behind:
                self.note(step)
            result = real(*args, **kwargs)
            if behind:
                self.note(step)
            return result

        async def traced_async(*args, **kwargs):
            result = await real(*args, **kwargs)
            self.note(step)
            return result

        self._patch.setattr(owner, name, traced_async if is_async else traced)


def traced(monkeypatch):
    """Return the trace of a session's and a compression's steps."""
    from ctxkit.engine.gauge import Gauge
    from ctxkit.host import _session_restore
    from ctxkit.sessions import Hold
    from ctxkit.sessions.transcript import load
    from ctxkit.strategies.history_limit import HistoryLimitStrategy

    trace = Trace(monkeypatch)
    trace.calls(SessionLocks, "take", "acquire the lock", is_async=True)
    trace.calls(load, "_prewarm", "prewarm")
    trace.calls(load, "_from_transcript", "make the state anew of whole lines")
    trace.calls(TranscriptSessionStore, "load", "load", is_async=True)
    trace.calls(_session_restore, "repair_context", "repair the pairing")
    trace.calls(Gauge, "situation", "estimate tokens", is_async=True)
    trace.calls(HistoryLimitStrategy, "plan_edits", "apply history limits")
    trace.calls(Hold, "release", "release the lock")
    return trace


async def broken_session(tmp_path, *, turns=120):
    """Save a session that is due for a compaction, with a broken state and a call without a result."""
    made = ToolCallBlock(id="lost", name="fetch", input='{"topic": "x"}', state="finished")
    context = [*history(turns, size=200), user("More."), AssistantMsg(name="scribe", content=[made])]
    context += [user("And?"), AssistantMsg(name="scribe", content="Nothing came.")]
    state = AgentState(session_id="s-1", context=context).model_dump(mode="json")
    async with SessionMiddleware.profile("openclaw", store := TranscriptSessionStore(tmp_path)):
        await store.save("s-1", state)
    (folder_of(tmp_path) / "s-1.state.json").write_text("{ broken")
    with (folder_of(tmp_path) / "s-1.jsonl").open("a") as file:
        file.write('{"malformed": \n')


@pytest.mark.may_block("the files are broken by hand")
@pytest.mark.row("O19", "O14", "O15", "O8", "O13")
async def test_the_ten_steps_of_a_compaction_come_in_the_documents_order(tmp_path, monkeypatch):
    await broken_session(tmp_path)
    trace = traced(monkeypatch)

    def summarise(messages):
        merges = "Merge these partial summaries" in text_of(messages)
        trace.note("merge the parts" if merges else "summarise each chunk")
        return GOOD

    after = []
    hooks = {
        "before_compression": [lambda record: trace.note("before_compaction")],
        "after_compression": [lambda record: (trace.note("after_compaction"), after.append(record))],
    }
    async with SessionMiddleware.profile("openclaw", TranscriptSessionStore(tmp_path)) as session:
        agent = openclaw(
            scripted := model(context_size=16_384, summaries=summarise),
            session_id="s-1",
            middlewares=[session, CompressionMiddleware()],
            hooks=hooks,
            history={"max_user_turns": 100},
            summary={"warm": False, "retry_delay_s": 0.0},
        )
        await agent.compress_context()

    assert trace.steps == [
        "acquire the lock",  # 1
        "prewarm",  # 3: it also tells a newer format, which must not be repaired
        "make the state anew of whole lines",  # 2
        "load",  # 4
        "repair the pairing",  # 5
        "estimate tokens",  # 7a
        "apply history limits",  # 6
        "before_compaction",  # 8
        "summarise each chunk",  # 7b and 7c
        "merge the parts",  # 7d
        "after_compaction",  # 8, when the history was replaced (7e)
        "release the lock",  # 10
    ]
    (record,) = after  # 9
    assert record.messages_before == 2 * 122
    assert record.messages_after == len(agent.state.context) <= record.messages_before / 2
    assert record.tokens_after < record.tokens_before
    parts = [request for request in scripted.summary_requests if "This is part" in text_of(request.messages)]
    assert len(parts) > 1
    messages = [len(re.findall(r"^\[\S+ (?:user|assistant)", text_of(part.messages), re.MULTILINE)) for part in parts]
    assert min(messages) >= 4
    assert (await row_of(TranscriptSessionStore(tmp_path))).compaction_count == 1
    assert MISSING_RESULT.startswith("[ctxkit] missing tool result")


# Summarization strategy, enrichment and time-outs


@pytest.mark.row("O9")
async def test_what_cannot_be_summarised_has_the_generic_text():
    agent = openclaw(
        model(context_size=16_384, summaries=RuntimeError("down")), summary={"retry_delay_s": 0.0, "attempts": 1}
    )
    agent.state.context = [AssistantMsg(name="scribe", content=[TextBlock(text="…" * 2000)]) for _ in range(60)]
    agent.state.context.append(user("Go on."))

    await agent.compress_context()

    assert NO_HISTORY in summary_text(agent)
    assert NO_HISTORY.startswith("No prior history.")


@pytest.mark.row("O10", "O16")
async def test_a_summary_has_the_eight_newest_failures_and_no_details_of_results_reach_the_model():
    agent = openclaw(scripted := model(context_size=64_000, summaries=GOOD))
    blocks = []
    for number in range(11):
        made = call("read", path=f"missing-{number}.txt")
        made.state = "finished"
        failed = ToolResultBlock(
            id=made.id,
            name="read",
            output=[TextBlock(text=f"no such file: missing-{number}.txt {words(900, seed=str(number))}")],
            state="error",
            metadata={"details": "VERBOSE AND UNTRUSTED"},
        )
        blocks += [made, failed]
    agent.state.context = [
        user("Read all."),
        AssistantMsg(name="scribe", content=blocks),
        *history(80, size=250),
        user("Go on."),
    ]

    await agent.compress_context()

    section = summary_text(agent).partition(FAILURES_TITLE)[2].partition("\n\n")[0]
    assert [n for n in range(11) if f"missing-{n}.txt" in section] == list(range(3, 11))
    assert max(map(len, section.splitlines())) < 300  # each of the messages had some thousands of characters
    assert "VERBOSE" not in "".join(text_of(request.messages) for request in scripted.requests)
    assert "VERBOSE" not in summary_text(agent)


@pytest.mark.row("O11")
async def test_a_compaction_has_5_minutes_three_tries_and_waits_of_half_a_second_to_5_seconds(monkeypatch):
    waits = []
    real = asyncio.sleep

    async def sleep(seconds, *rest):
        if seconds:
            waits.append(seconds)
        await real(0)

    class BusyError(Exception):
        status_code = 503

    monkeypatch.setattr("ctxkit.summary.asking.asyncio.sleep", sleep)
    agent = openclaw(scripted := model(context_size=16_384, summaries=BusyError("busy")))
    agent.state.context = history(40)

    await agent.compress_context()

    assert waits[:2] == [0.5, 1.0]
    assert len(scripted.summary_requests) % 3 == 0
    summary = agent.context_config.summary
    assert (summary.timeout_s, summary.attempts, summary.retry_delay_s, summary.retry_delay_max_s) == (300.0, 3, 0.5, 5)
    assert _compression_s(agent) == 5 * 60 + 2 * 60


# Lane queueing


@pytest.mark.row("O12")
async def test_compactions_of_all_sessions_go_one_after_another_and_a_session_has_one_run_at_a_time(tmp_path):
    inside, most, begun, go_on = [], [], asyncio.Semaphore(0), asyncio.Event()

    async def summarise(messages):
        inside.append(1)
        most.append(len(inside))
        begun.release()
        await go_on.wait()
        inside.pop()
        return GOOD

    agents = [openclaw(model(context_size=16_384, summaries=summarise), session_id=f"s-{n}") for n in range(3)]
    for agent in agents:
        agent.state.context = history(40)
    tasks = [asyncio.create_task(agent.compress_context()) for agent in agents]
    await begun.acquire()
    while PROCESS_LANES.waiting(GLOBAL) < 2:  # noqa: ASYNC110 - a lane is no event
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*tasks)

    assert set(most) == {1}
    assert [len(applied(agent)) for agent in agents] == [1, 1, 1]

    async with SessionMiddleware.profile(
        "openclaw", TranscriptSessionStore(tmp_path), locks={"timeout_s": 0.1}
    ) as session:
        first, second = (openclaw(model("a"), middlewares=[session, CompressionMiddleware()]) for _ in range(2))
        async for _ in first.reply_stream(user("Hello.")):
            with pytest.raises(SessionLockedError):
                await second.reply(user("Hello."))
            break


# Transcript repair


@pytest.mark.row("O15")
async def test_each_issue_of_tool_pairing_is_repaired_when_a_session_is_loaded():
    state = AgentState(session_id=str(KEY))
    lost = ToolCallBlock(id="lost", name="fetch", input="{}", state="finished")
    twice, late = exchange(1, size=3), exchange(2, size=3)
    nameless = ToolCallBlock(id="nameless", name="", input="{}", state="finished")
    orphan = ToolResultBlock(id="orphan", name="fetch", output="of no call", state="success")
    again = twice[1].model_copy(update={"output": [TextBlock(text="a second one")]})
    state.context = [
        user("Begin."),
        AssistantMsg(name="scribe", content=[lost, TextBlock(text="Hm.")]),
        user("And?"),
        AssistantMsg(name="scribe", content=[orphan, *twice, again, nameless, late[0]]),
        user("Well?"),
        AssistantMsg(name="scribe", content=[late[1], TextBlock(text="There.")]),
    ]
    store = MemorySessionStore()
    await store.save(str(KEY), state.model_dump(mode="json"))
    async with SessionMiddleware.profile("openclaw", store) as session:
        agent = openclaw(scripted := model(), middlewares=[session, CompressionMiddleware()])
        restored = await session.attach(agent)
        await agent.reply(user("Go on."))

    kinds = {repair.partition(":")[0] for repair in restored.repairs}
    assert len(kinds) == 5, restored.repairs
    assert not orphans(agent.state.context)
    sent = text_of(scripted.chats[0].messages)
    assert "[ctxkit] missing tool result" in sent
    assert number_of("old-1") in sent
    assert "a second one" not in sent
    assert "of no call" not in sent
    assert number_of("old-2") in sent


@pytest.mark.row("O17")
async def test_a_session_without_an_answer_is_reset_and_its_first_prompt_stands_once(tmp_path):
    store = TranscriptSessionStore(tmp_path)
    state = AgentState(session_id=str(KEY), context=[user("Hello?")])
    await store.save(str(KEY), state.model_dump(mode="json"))
    async with SessionMiddleware.profile("openclaw", store) as session:
        agent = openclaw(scripted := model("Hello."), middlewares=[session, CompressionMiddleware()])
        await agent.reply(user("Hello?"))

    assert text_of(scripted.chats[0].messages).count("Hello?") == 1
    (transcript,) = folder_of(tmp_path).glob("*.jsonl")
    assert transcript.read_text().count("Hello?") == 1


# Bootstrap context injection


@pytest.mark.may_block("the files are written by hand")
@pytest.mark.row("O18")
async def test_bootstrap_files_have_5_000_characters_each_and_20_000_together_and_a_note_says_what_was_cut(tmp_path):
    names = ["OPENCLAW.md", *(f"{letter}.md" for letter in "ABCDE")]
    for name in names:
        (tmp_path / name).write_text(f"This is {name}.\n" + words(2000, seed=name))
    async with MemoryMiddleware(str(tmp_path)) as memory:
        agent = openclaw(
            scripted := model(),
            middlewares=[memory, CompressionMiddleware()],
            memory={"bootstrap_names": names},
            prompt="system",
        )
        await agent.reply(user("Hello."))

    system = text_of(scripted.chats[0].messages[:1])
    assert agent.context_config.memory.bootstrap_file_chars == 5_000
    assert "This is OPENCLAW.md." in system
    assert "truncated" in system.lower() or "cut" in system.lower()
    assert 15_000 < len(system) < 23_000
    assert ContextConfig.profile("openclaw").memory.bootstrap_names == ("OPENCLAW.md",)


# Complete context life cycle


@pytest.mark.may_block("the files are read by hand")
@pytest.mark.row("O19", "O1", "O2", "O5", "O7", "O12", "O13", "O18")
async def test_the_seven_phases_of_a_session_come_in_the_documents_order(tmp_path, monkeypatch):
    (tmp_path / "OPENCLAW.md").write_text("Always answer in French.")
    root = tmp_path / "state"
    trace = traced(monkeypatch)
    trace.calls(TranscriptSessionStore, "save", "save", is_async=True)
    seen = {}

    def first(messages):
        (transcript,) = folder_of(root).glob("*.jsonl")
        seen["created"] = (len(transcript.read_text().splitlines()), len(index_of(root)))
        seen["prompt"] = text_of(messages[:1])
        trace.note("ask the model")
        return call("fetch", topic="a", size=300)

    def others(number):
        def say(messages):
            trace.note("ask the model")
            return call("fetch", topic=f"topic-{number}", size=300) if number < 45 else "done"

        return say

    def summarise(messages):
        trace.note("summarise")
        return GOOD

    hooks = {
        "before_compression": [lambda record: trace.note("before_compaction")],
        "after_compression": [lambda record: trace.note("after_compaction")],
    }
    session = SessionMiddleware.profile("openclaw", TranscriptSessionStore(root))
    async with session, MemoryMiddleware(str(tmp_path)) as memory:
        agent = openclaw(
            model(first, *map(others, range(46)), context_size=20_000, summaries=summarise),
            middlewares=[session, memory, CompressionMiddleware()],
            hooks=hooks,
            memory={"flush": False},
        )
        await agent.reply(user("Look up all topics."))
        await session.maintain()

    # 1. Session creation: the index has it, and the file has nothing but its header.
    # 2. Run initialisation, in its order; 3. the prompt has file and memory instructions.
    begun = ["acquire the lock", "prewarm", "make the state anew of whole lines", "load", "save"]
    assert trace.steps[: len(begun)] == begun
    assert seen["created"] == (1, 1)
    assert trace.steps.index("ask the model") > trace.steps.index("save")
    assert "Always answer in French." in seen["prompt"]
    assert "search_memory" in seen["prompt"]
    # 5. Context overflow: found before a step, pruned and summarised, between the hooks; then it goes on.
    at = trace.steps.index("before_compaction")
    assert trace.steps[at - 3 : at] == ["ask the model", "estimate tokens", "apply history limits"]
    end = trace.steps.index("after_compaction")
    assert "summarise" in trace.steps[at:end]
    assert trace.steps[end + 1] == "ask the model"
    # 6. Session close: the metadata is saved, and the lock is let go of.
    assert trace.steps[-2:] == ["save", "release the lock"]
    (row,) = index_of(root).values()
    assert row["compactionCount"] == len(applied(agent)) >= 1
    assert row["totalTokens"] > 0
    # 7. Maintenance.
    assert not (await session.maintain()).removed


@pytest.mark.row("O19")
async def test_a_second_run_goes_on_in_the_same_order_with_what_the_first_one_saved(tmp_path, monkeypatch):
    async with SessionMiddleware.profile("openclaw", TranscriptSessionStore(tmp_path)) as session:
        agent = openclaw(model("one"), middlewares=[session, CompressionMiddleware()])
        await agent.reply(user("First."))
    trace = traced(monkeypatch)

    def say(messages):
        trace.note("ask the model")
        return "two"

    async with SessionMiddleware.profile("openclaw", TranscriptSessionStore(tmp_path)) as session:
        agent = openclaw(
            scripted := model(say),
            middlewares=[session, CompressionMiddleware()],
            history={"max_user_turns": 1},
        )
        await agent.reply(user("Second."))

    assert trace.steps == [
        "acquire the lock",
        "prewarm",
        "load",
        "repair the pairing",
        "ask the model",
        "release the lock",
    ]
    assert text_of(scripted.chats[0].messages[1:]) == "First.\none\nSecond."


async def test_rows_of_sessions_have_what_the_document_names():
    names = {"session_id", "session_file", "updated_at", "context_tokens", "total_tokens", "total_tokens_fresh"}
    assert names | {"compaction_count", "delivery"} <= set(SessionEntry.__dataclass_fields__)
