"""Rules as data: what they refuse, how they are read, and what is remembered of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.errors import ConfigError
from ctxkit.rules import (
    AUTO_COMPACT,
    Always,
    CompactContext,
    ContextPressure,
    Facts,
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
from ctxkit.rules.memory import Clocks, RuleMemory

FACTS = Facts(
    turn=5,
    tokens=8_000,
    pressure_tokens=7_500,
    context_size=14_096,
    output_reserved=4_096,
    messages=12,
    tool_calls=3,
    context_tool_calls=9,
)


def test_pressure_is_tokens_by_what_the_answer_leaves():
    assert FACTS.pressure == 0.75


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ContextPressure(0.74), True),
        (ContextPressure(0.75), False),
        (TurnCount(5), True),
        (TurnCount(4), False),
        (ToolCalls(2), True),
        (ToolCalls(3), False),
        (ToolCalls(8, within="context"), True),
        (MessageCount(11), True),
        (MessageCount(12), False),
        (Always(), True),
    ],
    ids=repr,
)
def test_a_condition_holds_above_its_threshold_and_at_its_turn(condition, expected):
    assert condition.is_met(FACTS) is expected


def test_a_turn_comes_once():
    assert not TurnCount(5).is_met(replace(FACTS, fired_turn=5))
    assert TurnCount(5).is_met(replace(FACTS, fired_turn=4))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ContextPressure(1.5), "ContextPressure.threshold is 1.5"),
        (lambda: ContextPressure(0), "ContextPressure.threshold is 0"),
        (lambda: TurnCount(0), "TurnCount.count is 0"),
        (lambda: ToolCalls(True), "ToolCalls.threshold is True"),
        (lambda: MessageCount(-1), "MessageCount.threshold is -1"),
        (lambda: CompactContext("drop"), "CompactContext.strategy is 'drop'"),
        (lambda: CompactContext(keep_recent=-1), "CompactContext.keep_recent is -1"),
        (lambda: InjectMessage(" "), "InjectMessage.message is ' '"),
        (lambda: InjectMessage("x", "assistant"), "InjectMessage.role is 'assistant'"),
        (lambda: ModuleAction("", "x"), "ModuleAction.module is ''"),
        (lambda: ModuleAction("a", "b", {1: 2}), "ModuleAction.params is {1: 2}"),
        (lambda: LogMessage("{turns}"), "{turns} is no placeholder; use {turn}, {tokens}, {messages}"),
        (lambda: LogMessage("{turn.real}"), "{turn.real} is no placeholder"),
        (lambda: LogMessage("{turn:>9}"), "{turn} is no placeholder"),
        (lambda: LogMessage("{"), "write literal braces as '{{' and '}}'"),
        (lambda: Rule(id="", condition=Always(), action=LogMessage("x")), "Rule.id is ''"),
        (lambda: Rule(id="a", condition="always", action=LogMessage("x")), "Rule.condition is 'always'"),
        (lambda: Rule(id="a", condition=Always(), action=print), "Rule.action is <built-in function print>"),
        (lambda: Rule(id="a", on="turn", condition=Always(), action=LogMessage("x")), "Rule.on is 'turn'"),
        (lambda: Rule(id="a", cooldown=-1, condition=Always(), action=LogMessage("x")), "Rule.cooldown is -1"),
    ],
)
def test_what_cannot_work_is_refused_by_name_and_value(make, problem):
    with pytest.raises(ConfigError) as refused:
        make()
    assert problem in str(refused.value)


def test_the_documents_hooks_are_read_as_they_stand():
    data = [
        {
            "id": "pressure_log",
            "on": "turn_start",
            "condition": {"type": "always"},
            "action": {"type": "log", "message": "Turn {turn}: ~{tokens} tokens, {messages} messages"},
            "cooldown": 0,
        },
        {
            "id": "aggressive_compact",
            "on": "turn_end",
            "condition": {"type": "context_pressure", "threshold": 0.60},
            "action": {"type": "compact_context", "strategy": "truncate", "keep_recent": 4},
            "cooldown": 60,
        },
        {
            "id": "turn5_reminder",
            "condition": {"type": "turn_count", "count": 5},
            "action": {"type": "inject_message", "role": "system", "message": "Reminder."},
        },
        {
            "id": "tell",
            "condition": {"type": "tool_calls", "threshold": 3},
            "action": {"type": "module_action", "module": "a", "action": "b", "params": {"c": 1}},
        },
    ]
    assert rules_of(data) == (
        Rule(
            id="pressure_log",
            on="turn_start",
            condition=Always(),
            action=LogMessage("Turn {turn}: ~{tokens} tokens, {messages} messages"),
        ),
        Rule(
            id="aggressive_compact", condition=ContextPressure(0.6), action=CompactContext("truncate", 4), cooldown=60
        ),
        Rule(id="turn5_reminder", on="turn_end", condition=TurnCount(5), action=InjectMessage("Reminder.")),
        Rule(id="tell", condition=ToolCalls(3), action=ModuleAction("a", "b", {"c": 1}), cooldown=0.0),
    )


def test_all_that_is_wrong_with_rules_is_said_at_once_and_where():
    data = [
        {"id": "a", "when": "turn_end", "condition": {"type": "alwaz"}, "action": {"type": "log", "massage": "x"}},
        {"id": "b", "condition": {"type": "turn_count", "count": 0}, "action": {}},
        "c",
    ]
    with pytest.raises(ConfigError) as refused:
        rules_of(data)
    assert str(refused.value).splitlines() == [
        "rules.0.when is unknown; known are action, condition, cooldown, id, on.",
        "rules.0.condition.type is 'alwaz', which is unknown: did you mean always?",
        "rules.0.action.massage is unknown: did you mean message?",
        "rules.0.action has no message: give it.",
        "rules.1.condition.count is 0: give a whole number of at least 1.",
        "rules.1.action has no type: give one of compact_context, inject_message, module_action, log.",
        "rules.2 is 'c': give a mapping with id, condition, action.",
    ]


def test_two_rules_of_one_id_are_refused():
    data = [{"id": "a", "condition": {"type": "always"}, "action": {"type": "compact_context"}}] * 2
    with pytest.raises(ConfigError, match="'a'"):
        rules_of(data)


def test_auto_compact_is_put_in_only_where_no_rule_compacts():
    other = Rule(id="log", condition=Always(), action=LogMessage("x"))
    own = Rule(id="own", condition=Always(), action=CompactContext())
    assert with_auto_compact([own]) == (own,)
    automatic, rest = with_auto_compact([other])
    assert rest is other
    assert automatic == Rule(
        id=AUTO_COMPACT,
        on="turn_start",
        condition=ContextPressure(0.75),
        action=CompactContext("summarize", 10, 1024),
        cooldown=30.0,
    )


def test_a_kind_is_registered_once_and_must_be_a_dataclass_with_its_method():
    kinds = RuleKinds()
    with pytest.raises(ConfigError, match="none of context_pressure"):
        kinds.condition("always")(Always)
    with pytest.raises(ConfigError, match="dataclass that has a method act"):
        kinds.action("noise")(Always)
    with pytest.raises(ConfigError, match="dataclass"):
        kinds.condition("plain")(object)

    @dataclass(frozen=True)
    class Typed:
        type: str

        def is_met(self, facts: object) -> bool:
            return True

    with pytest.raises(ConfigError, match="rename it"):
        kinds.condition("typed")(Typed)
    assert list(RuleKinds().conditions) == ["context_pressure", "turn_count", "tool_calls", "message_count", "always"]


seconds = st.floats(min_value=0, max_value=1e9)


@given(cooldown=seconds, fired_at=seconds, now=seconds, ticks=st.tuples(seconds, seconds), restarted=st.booleans())
def test_whatever_is_done_to_the_clocks_no_rule_waits_longer_than_its_cooldown(
    cooldown, fired_at, now, ticks, restarted
):
    memory = RuleMemory().in_reply("r", turns_before=0)
    fired = memory.after_fire("a", Clocks(wall=lambda: fired_at, tick=lambda: ticks[0], process="one"))
    clocks = Clocks(wall=lambda: now, tick=lambda: ticks[1], process="two" if restarted else "one")
    assert 0 <= fired.cooldown_left_s("a", cooldown, clocks) <= cooldown
    assert fired.cooldown_left_s("b", cooldown, clocks) == 0


@given(replies=st.lists(st.sampled_from("abc"), max_size=12), rules=st.lists(st.text(max_size=5), max_size=12))
def test_what_is_remembered_survives_being_saved(replies, rules):
    memory = RuleMemory()
    for reply in replies:
        memory = memory.in_reply(reply, turns_before=3).after_call()
    for rule in rules:
        memory = memory.after_fire(rule, Clocks())
    assert RuleMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.fixed_dictionaries(dict.fromkeys(("turn", "reply_id", "tool_calls", "fired"), junk)) | junk)
def test_anything_else_in_its_place_is_nothing_remembered(data):
    memory = RuleMemory.from_json(data)
    assert memory.turn >= 0
    assert RuleMemory.from_json(memory.to_json()) == memory


@given(junk)
def test_reading_rules_from_anything_gives_rules_or_a_config_error(data):
    try:
        rules = rules_of(data)
    except ConfigError:
        return
    assert all(isinstance(rule, Rule) for rule in rules)
