"""What a user's own code does before and after a compression."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ctxkit.config.checks import refuse


@dataclass(frozen=True, kw_only=True)
class HooksConfig:
    """Functions that are called with a frozen record around each compression; coroutine functions are awaited.

    What a hook raises is logged and told as an event; it never stops a compression.
    """

    before_compression: Sequence[Callable[..., Any]] = ()
    """Called with a `ctxkit.BeforeCompression` before anything is stored or asked."""
    after_compression: Sequence[Callable[..., Any]] = ()
    """Called with a `ctxkit.AfterCompression` when it has ended, well or not."""

    def __post_init__(self) -> None:
        for name in ("before_compression", "after_compression"):
            hooks = getattr(self, name)
            hooks = (hooks,) if callable(hooks) else hooks
            if not isinstance(hooks, Sequence) or not all(callable(hook) for hook in hooks):
                refuse(self, name, hooks, "give a function or a sequence of functions")
            object.__setattr__(self, name, tuple(hooks))
