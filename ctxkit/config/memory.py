"""What is written to memory of what leaves a context, and which files stand in the system prompt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from ctxkit.config.checks import at_least, ratio, refuse, switch, whole

_NAME_CHARS = 200


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """How `MemoryMiddleware` writes, searches, and fills the system prompt."""

    time_zone: str | None = None
    """Name of the time zone (IANA, for example `"Europe/Berlin"`) whose day and hour an entry has; the machine's own where
    unset, for people read the files. Machines in several zones that share a memory need a name here."""
    flush: bool = True
    """Write to memory what a compression takes out of the context."""
    on_overflow: bool = False
    """Write the whole context to memory when a provider refuses a request for its size, as CowAgent does; the smaller request
    is sent meanwhile."""
    max_tokens: int = 2000
    """Most tokens of what one entry and the text to be injected have together, at least 50."""
    close_timeout_s: float = 30.0
    """Seconds that `aclose` waits for entries that are being written; what is not done by then is done at the next start."""
    search_tool: bool = True
    """Register `search_memory` for the agent, and say in its system prompt what it is for."""
    search_hits: int = 8
    """Most hits that one call of the tool gives, at least 1."""
    bootstrap_names: Sequence[str] = ("AGENTS.md", "MEMORY.md")
    """Files of the directory that stand in the system prompt, in this order; none turns it off."""
    bootstrap_file_chars: int = 5_000
    """Most characters of one file, the note that it was cut included, at least 200. OpenClaw's value."""
    bootstrap_total_chars: int = 20_000
    """Most characters of all files together with their headings, at least 200. OpenClaw's value."""
    bootstrap_hooks: Sequence[Callable[..., Any]] = ()
    """Called with a `ctxkit.BootstrapFiles` before each session's first request and when a file has changed; a mapping of
    names to texts that one returns takes the place of the files. Coroutine functions are awaited."""

    def __post_init__(self) -> None:
        for name in ("flush", "on_overflow", "search_tool"):
            switch(self, name)
        whole(self, "max_tokens", least=50)
        whole(self, "search_hits", least=1)
        at_least(self, "close_timeout_s", 0)
        ratio(self, "close_timeout_s", above=-1, to=86_400)
        whole(self, "bootstrap_file_chars", least=200)
        whole(self, "bootstrap_total_chars", least=200)
        self._check_zone()
        self._check_names()
        hooks = (self.bootstrap_hooks,) if callable(self.bootstrap_hooks) else self.bootstrap_hooks
        if not isinstance(hooks, Sequence) or not all(callable(hook) for hook in hooks):
            refuse(self, "bootstrap_hooks", hooks, "give a function or a sequence of functions")
        object.__setattr__(self, "bootstrap_hooks", tuple(hooks))

    def _check_zone(self) -> None:
        if self.time_zone is None:
            return
        try:
            ZoneInfo(self.time_zone)
        except (ValueError, OSError, TypeError, LookupError):
            rule = "give an IANA name such as 'Europe/Berlin' or 'UTC' (the package tzdata has them where the system has not)"
            refuse(self, "time_zone", self.time_zone, rule)

    def _check_names(self) -> None:
        names = self.bootstrap_names
        if isinstance(names, str) or not isinstance(names, Sequence) or not all(map(_is_file_name, names)):
            refuse(self, "bootstrap_names", names, "give a sequence of plain file names, for example ('AGENTS.md',)")
        object.__setattr__(self, "bootstrap_names", tuple(names))


def _is_file_name(name: object) -> bool:
    """Whether a value names a file of a directory, and nothing above or below it."""
    is_text = isinstance(name, str) and 0 < len(name) <= _NAME_CHARS and name.isprintable()
    return is_text and name not in {".", ".."} and not set("/\\:") & set(str(name))
