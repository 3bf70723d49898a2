"""Profile `agentscope`: AgentScope's documented context management."""

from typing import Final

from ctxkit.profiles._base import Profile, Value

_FILE: Final = "agentscope-2.0.3-context.txt"

AGENTSCOPE: Final = Profile(
    name="agentscope",
    about="AgentScope 2.0.3: a summary where a share of the window is full, tool results cut at 3,000 tokens.",
    document="AgentScope 2.0.3, Building Blocks, Context",
    values={
        "trigger_ratio": Value(0.8, f"{_FILE}:63 trigger_ratio=0.8"),
        "reserve_ratio": Value(0.1, f"{_FILE}:64 reserve_ratio=0.1"),
        "tool_result_limit": Value(3000, f"{_FILE}:65 tool_result_limit=3000"),
        "results.limit_ratio": Value(
            1.0,
            f"{_FILE}:129 compares the result's token count against `tool_result_limit`",
            "the limit in tokens is the only one",
        ),
        "results.marker": Value("end", f"{_FILE}:131 A truncation marker is appended to the reserved portion"),
        "ladder.rungs": Value(
            ("summarize",),
            f"{_FILE}:103 The summary replaces the compressed messages",
            "there is no cheaper step before it",
        ),
        "summary.prepare": Value(
            False,
            f"{_FILE}:103 The agent then continues its reasoning step",
            "the summary is made when it is due; `True` saves the wait",
        ),
    },
    constants={
        "largest trigger ratio": Value(0.9, f"{_FILE}:74 (capped at `0.9`)"),
        "first line of the truncation marker": Value("<<<TRUNCATED>>>", f"{_FILE}:134 <<<TRUNCATED>>>"),
    },
)
