"""Profile `digitorn`: Digitorn's context management."""

from typing import Final

from ctxkit.profiles._base import Profile, Value

_FILE: Final = "digitorn-context-management.txt"

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "summary": {
            "type": "string",
            "minLength": 1,
            "description": "What was discussed, decided and found, and what is still to be done.",
        }
    },
    "required": ["summary"],
}

DIGITORN: Final = Profile(
    name="digitorn",
    about="Digitorn: a summary, or a cut, at three quarters of what the answer leaves, and the ten newest messages stay.",
    document="Digitorn, Context Management",
    values={
        "trigger_ratio": Value(
            0.9, f"{_FILE}:58 pressure = estimated_tokens", "the pressure alone decides, so the ratio is the highest"
        ),
        "tool_result_limit": Value(
            100_000_000, f"{_FILE}:85 capped to ~50% of the available context", "the share is the only limit"
        ),
        "summary_template": Value(
            "[Summary: {summary}]",
            f'{_FILE}:72 "[Summary: discussed X, decided Y, found Z]"',
            "one text, no five fields",
        ),
        "summary_schema": Value(_SCHEMA, f'{_FILE}:72 "[Summary: discussed X, decided Y, found Z]"', "its one field"),
        "results.limit_ratio": Value(0.5, f"{_FILE}:85 capped to ~50% of the available context"),
        "results.limit_of": Value("available", f"{_FILE}:85 ~50% of the available context"),
        "window.max_tokens": Value(0, f"{_FILE}:43 max_tokens | int | 0"),
        "overflow.output_reserve_tokens": Value(4096, f"{_FILE}:44 output_reserved | int | 4096"),
        "overflow.target_ratio": Value(0.5, f"{_FILE}:138 Aggressively reduces context to ~50% of max"),
        "overflow.keep_messages_ratio": Value(0.5, f"{_FILE}:140 keep_recent // 2(more aggressive than normal)"),
        "overflow.retries": Value(1, f"{_FILE}:143 Retries the LLM call once after compaction"),
        "ladder.strategy": Value("summarize", f'{_FILE}:45 strategy | string | "summarize"'),
        "ladder.keep_messages": Value(10, f"{_FILE}:46 keep_recent | int | 10"),
        "ladder.rungs": Value(
            ("summarize",), f"{_FILE}:11 Two strategies are available", "there is no cheaper step before it"
        ),
        "triggers.pressure_ratio": Value(0.75, f"{_FILE}:47 compression_trigger | float | 0.75"),
        "triggers.chars_per_token": Value(4.0, f"{_FILE}:59 a quick estimate (~4 chars per token) of all messages"),
        "triggers.cooldown_turns": Value(2, f"{_FILE}:101 a cooldown of 2 turns"),
        "triggers.automatic": Value(True, f"{_FILE}:49 auto_compact | bool | true"),
        "summary.max_tokens": Value(1024, f"{_FILE}:48 summary_max_tokens | int | 1024"),
        "summary.model": Value(None, f"{_FILE}:50 summary_brain | AgentBrain | null"),
        "summary.prepare": Value(
            False, f"{_FILE}:13 slower, requires LLM call", "made when it is due; `True` saves the wait"
        ),
        "summary.reminder": Value(True, f"{_FILE}:78 a context reminder is automatically re-injected after compaction"),
    },
    constants={
        "what stands in place of messages that were cut": Value(
            "[Earlier messages truncated]", f'{_FILE}:64 "[Earlier messages truncated]"'
        ),
        "first line of what follows a list that was cut": Value(
            "RESULT TRUNCATED: showing 200 of 5000 results from filesystem.find.",
            f"{_FILE}:93 RESULT TRUNCATED: showing 200 of 5000 results from filesystem.find.",
        ),
        "seconds between two fires of the rule that is put in": Value(30.0, f"{_FILE}:161 cooldown: 30.0"),
    },
)
