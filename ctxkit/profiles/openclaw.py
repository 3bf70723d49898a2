"""Profile `openclaw`: OpenClaw's context management."""

from typing import Final

from ctxkit.profiles._base import Profile, Value

_FILE: Final = "openclaw-context-management.txt"

OPENCLAW: Final = Profile(
    name="openclaw",
    about="OpenClaw: half the window for the history, staged summaries one after another, locked and bounded sessions.",
    document="OpenClaw, Context Management",
    values={
        "trigger_ratio": Value(
            0.9, f"{_FILE}:88 History Budget (up to 50% of window", "the budget decides, so the ratio is the highest"
        ),
        "window.default_tokens": Value(200_000, f"{_FILE}:77 Default: 200,000 tokens"),
        "window.refuse_below_tokens": Value(16_000, f"{_FILE}:79 Hard minimum: 16,000 tokens"),
        "window.warn_below_tokens": Value(32_000, f"{_FILE}:80 Warning threshold: 32,000 tokens"),
        "window.reserve_floor_tokens": Value(20_000, f"{_FILE}:83 DEFAULT_PI_COMPACTION_RESERVE_TOKENS_FLOOR = 20,000"),
        "window.history_ratio": Value(0.5, f"{_FILE}:88 History Budget (up to 50% of window = 100k)"),
        "window.history_margin": Value(1.2, f"{_FILE}:124 (SAFETY_MARGIN = 1.2)"),
        "window.estimate_factor": Value(1.2, f"{_FILE}:124 Token estimation uses a 20% safety margin"),
        "ladder.rungs": Value(("summarize",), f"{_FILE}:105 Replace old history with summary"),
        "ladder.chunks": Value(
            2,
            f"{_FILE}:114 iteratively removes the oldest message chunks until within budget",
            "halves, the largest chunks that there are",
        ),
        "summary.timeout_s": Value(300.0, f"{_FILE}:134 Compaction timeout | 5 minutes"),
        "summary.attempts": Value(3, f"{_FILE}:136 LLM summarization retries | 3 attempts"),
        "summary.retry_delay_s": Value(0.5, f"{_FILE}:136 3 attempts, 500ms"),
        "summary.retry_delay_max_s": Value(5.0, f"{_FILE}:136 5s backoff"),
        "summary.lane": Value("global", f"{_FILE}:140 Global lane: Serializes compaction across all sessions"),
        "memory.bootstrap_file_chars": Value(5_000, f"{_FILE}:176 Per-file max chars | ~5,000"),
        "memory.bootstrap_total_chars": Value(20_000, f"{_FILE}:177 Total max chars (all files) | ~20,000"),
        "memory.bootstrap_names": Value(("OPENCLAW.md",), f"{_FILE}:194 Bootstrap files (OPENCLAW.md, etc."),
        "retention.max_age_days": Value(30.0, f"{_FILE}:31 Prune entries older than 30 days"),
        "retention.keep_newest": Value(0, f"{_FILE}:31 Prune entries older than 30 days", "however few there are"),
        "retention.max_sessions": Value(500, f"{_FILE}:32 Cap at 500 entries"),
        "retention.rotate_index_bytes": Value(10_000_000, f"{_FILE}:34 when file exceeds 10MB"),
        "retention.keep_backups": Value(3, f"{_FILE}:34 (keep 3 backups)"),
        "retention.mode": Value(
            "warn", f"{_FILE}:30 configurable mode: warn or enforce", "the first of the two, which removes nothing"
        ),
        "locks.timeout_s": Value(10.0, f"{_FILE}:54 Acquisition timeout | 10 seconds (default)"),
        "locks.max_hold_s": Value(300.0, f"{_FILE}:55 Max hold time | 5 minutes (default)"),
        "locks.watchdog_s": Value(60.0, f"{_FILE}:56 Watchdog interval | 60 seconds"),
        "locks.release_on_signals": Value(True, f"{_FILE}:59 SIGINT, SIGTERM, SIGQUIT, SIGABRT release locks"),
    },
    constants={
        "seconds that a cached index is good for": Value(
            45.0, f"{_FILE}:29 45-second TTL with mtime-based invalidation"
        ),
        "tries of a rename": Value(5, f"{_FILE}:60 Temp-file + rename with 5-retry loop"),
        "seconds between two tries of a rename": Value(0.05, f"{_FILE}:60 (50ms backoff)"),
        "bytes read ahead of a session's file": Value(4096, f"{_FILE}:96 read 4KB for OS page cache"),
        "least messages in a part of a staged summary": Value(4, f"{_FILE}:121 min 4 messages per part"),
        "tool failures in a summary": Value(8, f"{_FILE}:127 Up to 8 most recent"),
        "seconds that a compression may hold a lock beyond its time-out": Value(
            120.0, f"{_FILE}:135 timeout + 2 min grace"
        ),
    },
)
