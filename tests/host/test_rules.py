"""Rules: conditions and actions before each model call and at the end of a turn, through a real agent."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import pytest
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.state import AgentState
from agentscope.tool import FunctionTool

from ctxkit import CompressionMiddleware, ConfigError, ContextConfig, RulesMiddleware, SessionMiddleware
from ctxkit.plan import Reason
from ctxkit.rules import (
    Always,
    CompactContext,
    ContextPressure,
    InjectMessage,
    LogMessage,
    MessageCount,
    ModuleAction,
    Rule,
    RuleKinds,
    ToolCalls,
    TurnCount,
    rules_of,
    with_auto_compact,
)
from ctxkit.rules.memory import Clocks
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
    orphans,
    summary_text,
    text_of,
    told,
    user,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.row("D9")]


class HandClock:
    """Both clocks of a machine, set by hand."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.tick = 100.0

    def clocks(self, process: str = "first") -> Clocks:
        return Clocks(wall=lambda: self.wall, tick=lambda: self.tick, process=process)

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.tick += seconds


def ruled(
    *rules: Rule, script: list[Any], window: int = 20_000, clocks: Clocks | None = None, modules: Any = None, **kw: Any
):
    middleware = RulesMiddleware(rules, clocks=clocks, modules=modules)
    kw.setdefault("middlewares", [middleware, CompressionMiddleware()])
    return make_agent(ScriptedModel(script, context_size=window), **kw)


def logging_rule(**changes: Any) -> Rule:
    given: dict[str, Any] = {"id": "log", "on": "turn_start", "condition": Always()}
    return Rule(**{**given, "action": LogMessage("Turn {turn}: ~{tokens} tokens, {messages} messages"), **changes})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ctxkit.rules"]


async def test_a_rule_of_turn_start_is_looked_at_before_each_model_call(caplog):
    caplog.set_level(logging.INFO)
    agent = ruled(logging_rule(), script=[*fetches(2, size=10), "Done.", "Again."])
    await agent.reply(user("Fetch two."))
    await agent.reply(user("Once more."))
    said = lines(caplog)
    assert [line.split(":")[0] for line in said] == ["Turn 1", "Turn 1", "Turn 1", "Turn 2"]
    assert [int(line.split(", ")[1].split()[0]) for line in said] == [2, 4, 6, 8]  # the host adds a hint
    assert all(int(line.split("~")[1].split()[0]) > 0 for line in said)


async def test_a_rule_of_turn_end_is_looked_at_once_a_turn_when_all_is_said(caplog):
    caplog.set_level(logging.INFO)
    agent = ruled(logging_rule(on="turn_end"), script=[*fetches(2, size=10), "Done."])
    events = await events_of(agent.reply_stream(user("Fetch two.")))
    assert [line.split(", ")[1] for line in lines(caplog)] == ["7 messages"]
    assert [event.name for event in events[-2:-1]] == ["ctxkit.rule.fired"]
    assert events[-1].type == "REPLY_END"


async def test_a_reply_that_waits_for_a_person_has_not_ended_and_goes_on_in_its_turn(caplog):
    caplog.set_level(logging.INFO)
    agent = ruled(
        logging_rule(on="turn_end"),
        logging_rule(id="each"),
        script=[call("fetch", topic="a", size=5), "Done."],
        tools=[FunctionTool(fetch)],
    )
    events = await events_of(agent.reply_stream(user("Fetch.")))
    asked = next(event for event in events if isinstance(event, RequireUserConfirmEvent))
    assert len(lines(caplog)) == 1
    results = [ConfirmResult(confirmed=True, tool_call=asked.tool_calls[0])]
    await agent.reply(UserConfirmResultEvent(reply_id=agent.state.reply_id, confirm_results=results))
    assert [line.split(":")[0] for line in lines(caplog)] == ["Turn 1"] * 3


async def test_a_turn_that_is_interrupted_runs_no_rule_at_its_end(caplog):
    caplog.set_level(logging.INFO)
    begun = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = ruled(logging_rule(on="turn_end"), script=[call("wait"), "Done."], tools=[wait])
    task = asyncio.create_task(agent.reply(user("Wait.")))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert lines(caplog) == []


async def test_context_is_compacted_above_a_pressure_as_the_rule_says_and_everything_is_stored():
    offloader = memory_offloader()
    compact = CompactContext(strategy="truncate", keep_recent=4)
    rule = Rule(id="aggressive", on="turn_end", condition=ContextPressure(0.2), action=compact, cooldown=60)
    agent = ruled(rule, script=["Done."], window=20_000, offloader=offloader)
    agent.state.context.extend(history(8, size=400))
    events = await events_of(agent.reply_stream(user("What now?")))
    (receipt,) = applied(agent)
    assert receipt.reason is Reason.RULE
    assert "rule.fired" in told(events)
    assert "compression.done" in told(events)
    assert "truncated" in summary_text(agent)
    assert orphans(agent.state.context) == []
    assert "What now?" in text_of(agent.state.context)
    stored = [entry async for entry in offloader.store.list(agent.state.session_id)]
    assert stored
    assert agent.model.requests[1:] == []


async def test_a_pressure_below_the_threshold_leaves_the_context_alone():
    rule = Rule(id="compact", on="turn_start", condition=ContextPressure(0.9), action=CompactContext())
    agent = ruled(rule, script=["Done."])
    agent.state.context.extend(history(3, size=200))
    await agent.reply(user("What now?"))
    assert applied(agent) == []


async def test_pressure_goes_by_the_quick_estimate_where_the_config_does(caplog):
    caplog.set_level(logging.INFO)
    for chars_per_token, expected in ((None, []), (1.0, ["full"])):
        caplog.clear()
        rule = Rule(id="full", on="turn_start", condition=ContextPressure(0.5), action=LogMessage("full"))
        config = ContextConfig(triggers={"chars_per_token": chars_per_token})
        agent = ruled(rule, script=["Done."], window=10_000, config=config)
        await agent.reply(user("abcdefg " * 900))  # 7,200 characters, about 2,000 tokens
        assert lines(caplog) == expected


async def test_the_rule_that_auto_compact_puts_in_summarises_before_the_call():
    (rule,) = with_auto_compact((), compression_trigger=0.3, keep_recent=4)
    agent = ruled(rule, script=["A summary.", "Done."], window=20_000, offloader=memory_offloader())
    agent.state.context.extend(history(8, size=600))
    await agent.reply(user("What now?"))
    (receipt,) = applied(agent)
    assert receipt.reason is Reason.RULE
    assert receipt.tokens_after < receipt.tokens_before


async def test_a_rule_that_compacts_rests_for_the_turns_that_the_config_says():
    rule = Rule(id="always", on="turn_start", condition=Always(), action=CompactContext("truncate", 2))
    config = ContextConfig(triggers={"cooldown_turns": 2})
    agent = ruled(rule, script=["One."] * 4, window=60_000, offloader=memory_offloader(), config=config)
    turns = []
    for number in range(4):
        agent.state.context.extend(history(3, size=300, prefix=f"t{number}"))
        await agent.reply(user(f"Turn {number}."))
        turns.append(len(applied(agent)))
    assert turns == [1, 1, 1, 2]


async def test_rules_that_compact_are_refused_where_the_agent_has_no_compression():
    rule = Rule(id="compact", condition=Always(), action=CompactContext())
    agent = ruled(rule, script=["Done."], middlewares=[RulesMiddleware([rule])])
    with pytest.raises(ConfigError, match=r"'compact'.*no CompressionMiddleware: give it one"):
        await agent.reply(user("Go."))


async def test_other_rules_work_without_compression(caplog):
    caplog.set_level(logging.INFO)
    rules = [
        logging_rule(),
        Rule(id="full", on="turn_start", condition=ContextPressure(0.001), action=LogMessage("full")),
    ]
    agent = ruled(script=["Done."], middlewares=[RulesMiddleware(rules)])
    await agent.reply(user("Go. " * 50))
    assert lines(caplog)[1] == "full"


async def test_an_injected_message_is_read_once_at_its_turn_and_breaks_no_rule_of_the_host():
    reminder = "Reminder: you have been chatting for 5 turns."
    rule = Rule(id="turn5", on="turn_start", condition=TurnCount(5), action=InjectMessage(reminder, "system"))
    agent = ruled(rule, script=["1", "2", "3", "4", *fetches(2, size=5), "5", "6"])
    for number in range(6):
        await agent.reply(user(f"Turn {number + 1}."))
    seen = [text_of(request.messages).count(reminder) for request in agent.model.requests]
    assert seen == [0, 0, 0, 0, 1, 1, 1, 1]
    assert all(message.role != "system" for message in agent.state.context)
    assert agent.state.context[-1].id == agent.state.reply_id


async def test_words_of_the_user_are_injected_as_they_stand():
    rule = Rule(id="say", on="turn_start", condition=TurnCount(1), action=InjectMessage("Answer in French.", "user"))
    agent = ruled(rule, script=["Oui."])
    await agent.reply(user("Hello."))
    (hint,) = [block for block in agent.state.context[-1].content if block.type == "hint" and block.source == "user"]
    assert hint.hint == "Answer in French."


async def test_tool_calls_are_counted_by_turn_also_where_their_results_have_left():
    counted: list[str] = []

    def write(what: str) -> None:
        counted.append(what)

    rules = [
        Rule(
            id="many", on="turn_start", condition=ToolCalls(2), action=ModuleAction("book", "write", {"what": "many"})
        ),
        Rule(id="clear", on="turn_start", condition=ToolCalls(1), action=CompactContext("truncate", 0), cooldown=9999),
    ]
    modules = {"book": {"write": write}}
    agent = ruled(*rules, script=[*fetches(3, size=50), "Done.", "Again."], modules=modules, window=60_000)
    await agent.reply(user("Fetch three."))
    await agent.reply(user("And now?"))
    assert counted == ["many"]


async def test_messages_are_counted_as_a_provider_has_them():
    counted: list[int] = []

    def write(item: int) -> None:
        counted.append(item)

    rule = Rule(
        id="long", on="turn_start", condition=MessageCount(4), action=ModuleAction("book", "write", {"item": 1})
    )
    modules = {"book": {"write": write}}
    agent = ruled(rule, script=[*fetches(2, size=5), "Done."], modules=modules)
    await agent.reply(user("Fetch two."))
    assert counted == [1]  # 2, 4 and 6: what was asked, the host's hint, and a call and its result, twice


async def test_module_actions_may_be_methods_and_coroutine_functions_and_get_their_params():
    class Tickets:
        def __init__(self) -> None:
            self.opened: list[tuple[str, int]] = []

        async def open(self, title: str, *, severity: int) -> None:
            await asyncio.sleep(0)
            self.opened.append((title, severity))

    tickets = Tickets()
    action = ModuleAction("tickets", "open", {"title": "full", "severity": 2})
    agent = ruled(Rule(id="t", condition=Always(), action=action), script=["Done."], modules={"tickets": tickets})
    await agent.reply(user("Go."))
    assert tickets.opened == [("full", 2)]


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (ModuleAction("bok", "write"), "module 'bok' is not registered: did you mean book?"),
        (ModuleAction("book", "writs"), "'writs' is no function of the module 'book': did you mean write?"),
        (ModuleAction("book", "__class__"), "'__class__' is no function of the module 'book'"),
    ],
)
async def test_an_action_that_nobody_registered_is_refused_before_the_agent_runs(action, problem):
    with pytest.raises(ConfigError) as refused:
        RulesMiddleware([Rule(id="x", condition=Always(), action=action)], modules={"book": {"write": print}})
    assert problem in str(refused.value)


async def test_a_rule_that_fails_is_told_and_logged_and_the_next_one_has_its_turn(caplog):
    caplog.set_level(logging.INFO)

    def fail() -> None:
        raise RuntimeError("no line")

    rules = [Rule(id="bad", on="turn_start", condition=Always(), action=ModuleAction("a", "b")), logging_rule()]
    agent = ruled(*rules, script=["Done."], modules={"a": {"b": fail}})
    events = await events_of(agent.reply_stream(user("Go.")))
    (failed,) = [event.value for event in events if getattr(event, "name", "") == "ctxkit.rule.failed"]
    assert (failed["rule"], failed["problem"]) == ("bad", "RuntimeError: no line")
    assert lines(caplog)[-1].startswith("Turn 1")
    assert agent.state.context[-1].content[-1].text == "Done."


async def test_a_condition_that_fails_is_told_and_its_action_is_not_taken():
    @dataclass(frozen=True)
    class Broken:
        def is_met(self, facts: object) -> bool:
            raise LookupError("no such fact")

    called: list[int] = []
    rule = Rule(id="broken", on="turn_start", condition=Broken(), action=ModuleAction("m", "f"))
    agent = ruled(rule, script=["Done."], modules={"m": {"f": lambda: called.append(1)}})
    events = await events_of(agent.reply_stream(user("Go.")))
    assert "rule.failed" in told(events)
    assert called == []


async def test_cancelling_a_rule_cancels_the_reply_and_the_rule_is_over():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    rule = Rule(id="hang", on="turn_start", condition=Always(), action=ModuleAction("m", "hang"))
    agent = ruled(rule, script=["Done."], modules={"m": {"hang": hang}})
    task = asyncio.create_task(agent.reply(user("Go.")))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ended.is_set()
    assert agent.model.requests == []


async def test_a_cooldown_lets_a_rule_fire_once_in_so_many_seconds(caplog):
    caplog.set_level(logging.INFO)
    clock = HandClock()
    agent = ruled(logging_rule(cooldown=30.0), script=["Done."] * 4, clocks=clock.clocks())
    for passed in (0, 29, 1, 1):
        clock.go_on(passed)
        await agent.reply(user("Go."))
    assert [line.split(":")[0] for line in lines(caplog)] == ["Turn 1", "Turn 3"]


@pytest.mark.parametrize(
    ("jump", "passed", "fires"),
    [(0, 29, False), (0, 30, True), (-3600, 1, True), (-5, 29, False), (-5, 36, True)],
    ids=["in the cooldown", "behind it", "set back an hour", "set back a little", "set back, and behind it"],
)
async def test_a_cooldown_goes_on_over_a_restart_and_a_clock_set_back_blocks_no_longer(caplog, jump, passed, fires):
    caplog.set_level(logging.INFO)
    clock = HandClock()
    first = ruled(logging_rule(cooldown=30.0), script=["Done."], clocks=clock.clocks())
    await first.reply(user("Go."))
    saved = AgentState.model_validate_json(first.state.model_dump_json())
    clock.go_on(passed)
    clock.wall += jump
    clock.tick = 5.0  # another machine start
    second = ruled(logging_rule(cooldown=30.0), script=["Done."], clocks=clock.clocks("second"), state=saved)
    await second.reply(user("Go."))
    assert [line.split(":")[0] for line in lines(caplog)] == ["Turn 1", *(["Turn 2"] if fires else [])]


async def test_in_one_process_no_jump_of_the_clock_changes_a_cooldown(caplog):
    caplog.set_level(logging.INFO)
    clock = HandClock()
    agent = ruled(logging_rule(cooldown=30.0), script=["Done."] * 3, clocks=clock.clocks())
    for jump in (0, -86_400, 172_800):
        clock.wall += jump
        clock.go_on(10)
        await agent.reply(user("Go."))
    assert len(lines(caplog)) == 1


async def test_what_a_rule_injects_at_the_end_of_a_turn_is_saved_with_the_session():
    store = MemorySessionStore()
    rule = Rule(id="note", condition=Always(), action=InjectMessage("The turn is over."))
    middlewares = [SessionMiddleware(store), RulesMiddleware([rule]), CompressionMiddleware()]
    agent = ruled(script=["Done."], middlewares=middlewares)
    await agent.reply(user("Go."))
    again = make_agent(ScriptedModel(["Hello."]), middlewares=[SessionMiddleware(store)])
    again.state.session_id = agent.state.session_id
    await again.reply(user("Where were we?"))
    assert "The turn is over." in text_of(again.model.requests[0].messages)


async def test_own_conditions_and_actions_are_registered_and_known_there_alone():
    kinds = RuleKinds()
    seen: list[str] = []

    @kinds.condition("quiet")
    @dataclass(frozen=True)
    class Quiet:
        below: int

        async def is_met(self, facts: Any) -> bool:
            return facts.messages < self.below

    @kinds.action("ring")
    @dataclass(frozen=True)
    class Ring:
        bell: str = "small"

        def act(self, agent: Any) -> None:
            seen.append(f"{self.bell} for {agent.name} in turn {agent.facts.turn}")

    data = [{"id": "r", "condition": {"type": "quiet", "below": 3}, "action": {"type": "ring", "bell": "big"}}]
    agent = ruled(*rules_of(data, kinds=kinds), script=["Done.", "Done."])
    await agent.reply(user("Go."))
    await agent.reply(user("Go."))
    assert seen == ["big for scribe in turn 1"]
    with pytest.raises(ConfigError, match="'quiet', which is unknown"):
        rules_of(data)


async def test_two_middlewares_with_rules_on_one_agent_are_refused():
    agent = ruled(script=["Done."], middlewares=[RulesMiddleware([]), RulesMiddleware([])])
    with pytest.raises(ConfigError, match="two RulesMiddlewares"):
        await agent.reply(user("Go."))


async def test_what_somebody_else_wrote_into_the_state_is_no_obstacle(caplog):
    caplog.set_level(logging.INFO)
    agent = ruled(logging_rule(), script=["Done."])
    agent.state.middle_context["ctxkit.rules"] = {"turn": "many", "fired": [1]}
    await agent.reply(user("Go."))
    assert lines(caplog)[0].startswith("Turn 1")
