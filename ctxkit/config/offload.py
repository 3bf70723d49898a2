"""How what leaves the context is stored and recalled, and what is kept from disks and summaries."""

from collections.abc import Callable
from dataclasses import dataclass

from ctxkit.config.checks import ratio, refuse, switch, whole


@dataclass(frozen=True, kw_only=True)
class OffloadConfig:
    """How what leaves the context is stored and recalled."""

    timeout_s: float = 10.0
    """Seconds that one call of an offloader may take, above 0."""
    local_copy: bool = True
    """Beside an offloader that can only write, keep a copy that recall can read."""
    recall_tools: bool = True
    """Register `search_context` and `read_context` for the agent."""
    recall_tokens: int = 2000
    """Most tokens that one call of a recall tool returns; at most an eighth of the window is taken."""

    def __post_init__(self) -> None:
        ratio(self, "timeout_s", to=86400)
        switch(self, "local_copy")
        switch(self, "recall_tools")
        whole(self, "recall_tokens", least=100)


@dataclass(frozen=True, kw_only=True)
class PrivacyConfig:
    """What is kept from disks and from summaries.

    `LocalWorkspace` and `StoreOffloader` have their own `redactor` for what they store; this one is for what other
    offloaders get, for summaries, and for saved sessions.
    """

    redact: bool = True
    """Replace secrets in what leaves the context; off, everything goes as it is."""
    redactor: Callable[[str], str] | None = None
    """Returns a text without secrets, always the same for the same text; ctxkit's `SecretRedactor` where unset."""

    def __post_init__(self) -> None:
        switch(self, "redact")
        if self.redactor is not None and not callable(self.redactor):
            refuse(self, "redactor", self.redactor, "give a function that returns a text without secrets, or None")
