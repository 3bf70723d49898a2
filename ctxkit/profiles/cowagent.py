"""Profile `cowagent`: CowAgent's short-term memory, as its document of June 2026 has it."""

from typing import Final

from ctxkit.profiles._base import Profile, Value

_FILE: Final = "cowagent-short-term-memory-2026-06.txt"
_MOST_TURNS: Final = Value(20, f"{_FILE}:70 Maximum conversation turns in context | `20`")

COWAGENT: Final = Profile(
    name="cowagent",
    about="CowAgent (June 2026): budgets in tokens and turns, older turns go to a daily memory, and at last all of them.",
    document="CowAgent, Short-term Memory, June 2026",
    values={
        "trigger_ratio": Value(
            0.9, f"{_FILE}:67 Maximum context token budget", "the budget alone decides, so the ratio is the highest"
        ),
        "triggers.max_tokens": Value(50_000, f"{_FILE}:67 Maximum context token budget | `50000`"),
        "triggers.max_turns": _MOST_TURNS,
        "history.max_tool_calls": Value(15, f"{_FILE}:73 Maximum decision steps per turn (tool call count) | `15`"),
        "history.old_result_chars": Value(20_000, f"{_FILE}:98 Results exceeding **20,000 characters** are truncated"),
        "tool_result_limit": Value(
            50_000,
            f"{_FILE}:67 Maximum context token budget | `50000`",
            "a result of the running turn has no other limit",
        ),
        "results.limit_ratio": Value(1.0, f"{_FILE}:98 Current turn results are not affected"),
        "ladder.rungs": Value(
            ("turn_texts", "drop_turns"), f"{_FILE}:132 After turn trimming, if tokens still exceed the budget"
        ),
        "ladder.texts_below_turns": Value(
            5, f"{_FILE}:137 **Fewer than 5 turns**: All turns undergo **text compression**"
        ),
        "summary.placement": Value("first_user", f"{_FILE}:119 **injected into the first user message**"),
        "summary.timing": Value("next_turn", f"{_FILE}:122 takes effect from the next turn onward"),
        "memory.on_overflow": Value(True, f"{_FILE}:155 All current messages are summarized and written to memory"),
        "overflow.result_chars": Value(10_000, f"{_FILE}:158 tool results limited to 10K chars"),
        "overflow.text_chars": Value(10_000, f"{_FILE}:158 user text to 10K"),
        "overflow.max_turns": Value(5, f"{_FILE}:158 max 5 turns"),
        "overflow.on_unfit": Value("clear", f"{_FILE}:161 the entire conversation context is cleared"),
        "session.restore": Value("texts", f"{_FILE}:179 Only retains each turn's **user text and Agent final reply**"),
        "session.max_turns": _MOST_TURNS,
        "retention.mode": Value("enforce", f"{_FILE}:182 are automatically cleaned up"),
        "retention.max_age_days": Value(30.0, f"{_FILE}:182 Sessions older than **30 days**"),
        "retention.max_sessions": Value(None, f"{_FILE}:182 Sessions older than **30 days**", "age is the only limit"),
        "retention.keep_newest": Value(0, f"{_FILE}:182 Sessions older than **30 days**", "however few there are"),
    },
    constants={
        "least turns restored": Value(3, f"{_FILE}:176 max(3, max_context_turns / 6)"),
        "turns allowed for each turn restored": Value(6, f"{_FILE}:176 max(3, max_context_turns / 6)"),
    },
)
