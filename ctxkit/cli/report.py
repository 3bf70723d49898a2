"""What a race reports: moments while it runs, figures at its end; pure data, and no AgentScope."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Contestant = Literal["stock", "ctxkit"]
"""Who runs: AgentScope's agent as it comes, or the same one with ctxkit."""

TRIGGER_RATIO: Final = 0.8
"""Share of the window from which on both compress, AgentScope's default; the gauge has its mark there."""


@dataclass(frozen=True, kw_only=True)
class Began:
    """A contestant begins."""

    contestant: Contestant


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """The model has answered a request and taken a step."""

    contestant: Contestant
    number: int
    """From 1 on."""
    total: int
    what: str
    """In words."""
    tokens: int
    """True tokens of the request that it answered."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The user says something."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """ctxkit sent an event; names and values are those of `ctxkit.telemetry`."""

    name: str
    value: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Noted:
    """A line worth reading: a warning of ctxkit's, or a compression of the stock agent, which sends no events."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Files of one kind that a contestant's workspace holds at the end."""

    where: str
    """A pattern below the workspace."""
    files: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How one contestant fared."""

    contestant: Contestant
    survived: bool
    """It came to the end of the story."""
    died_of: str | None
    """Why it did not, in words."""
    steps: int
    """Steps taken."""
    steps_total: int
    model_calls: int
    """All of them: refused ones and those for summaries included."""
    refused_calls: int
    input_tokens: int
    """Of all calls that were answered."""
    cached_tokens: int
    """How many of these a provider's prompt cache would have served."""
    compressions: int
    longest_request_tokens: int
    """The longest request that was sent, refused ones included."""
    results_shortened: int
    stored: tuple[Stored, ...]
    is_fact_in_context: bool | None
    """The answer still stood in the context when the question came (if not, it must be recalled); `None` if it never came."""
    answer: str | None
    """What it said to the question about the beginning; `None` where it was not alive to be asked."""
    is_answer_right: bool
    is_constraint_live: bool
    """The user's rule stood word for word in the last request that was answered."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Race:
    """How both fared."""

    window_tokens: int
    constraint: str
    question: str
    expected: str
    """The right answer, taken from the file itself."""
    stock: Figures
    ctxkit: Figures

    @property
    def is_won(self) -> bool:
        """Whether the agent with ctxkit came to the end and knew the answer."""
        return self.ctxkit.survived and self.ctxkit.is_answer_right

    def to_json(self, *, kept_in: str | None, notes: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return plain JSON.

        Args:
            kept_in: Where the workspaces are, if they were kept.
            notes: What ctxkit warned of.
        """
        return {**asdict(self), "is_won": self.is_won, "kept_in": kept_in, "notes": list(notes)}


Moment = Began | Stepped | Asked | Noticed | Noted | Figures
"""What is told while a race runs; the figures are a contestant's last moment."""
Tell = Callable[[Moment], None]
"""Takes each moment as it comes."""
