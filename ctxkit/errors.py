"""The errors that ctxkit raises.

    CtxkitError
    ├── ConfigError (also ValueError)      a setting that cannot work
    │   └── ConfigFileError                a file of settings that cannot be used
    ├── SummaryError                       no summary of the wanted quality could be had
    ├── StoreError                         the place that keeps what leaves the context
    │   ├── StoreWriteError                something could not be stored
    │   │   ├── StoreFullError             a size limit of the store would be passed
    │   │   └── StaleOwnerError            another owner has taken the session over
    │   ├── StoreReadError                 something stored could not be read
    │   │   └── NewerFormatError           a newer ctxkit wrote it
    │   └── RecordNotFoundError            nothing is stored under that reference
    ├── SessionLockedError                 another owner holds the session
    └── ContextUnfitError                  the request cannot be made to fit the window

Automatic hooks raise `ContextUnfitError`, and at the beginning of a reply `ConfigError` where the model's window is not
known or smaller than the config allows; calls that a user makes by hand raise them all.
"""

from collections.abc import Mapping, Sequence


class CtxkitError(Exception):
    """The root of all errors that ctxkit raises on purpose."""


class ConfigError(CtxkitError, ValueError):
    """A setting that cannot work; the message names the field, the value and the remedy."""


class ConfigFileError(ConfigError):
    """A file of settings that cannot be used; the message has a line for each thing that is wrong.

    Args:
        problems: One line each: `FILE:LINE:COLUMN: what is wrong and what to do`, in the order of the file.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class SummaryError(CtxkitError):
    """No summary could be had, and the settings forbid going on without one."""


class StoreError(CtxkitError):
    """The store of offloaded content failed; the context is as it was."""


class StoreWriteError(StoreError):
    """Something could not be stored; nothing was removed from the context."""


class StoreFullError(StoreWriteError):
    """A size limit of the store would be passed; nothing was stored, and nothing was removed from the context."""


class StaleOwnerError(StoreWriteError):
    """Another owner has taken the session over; the one that lost it can no longer write."""


class StoreReadError(StoreError):
    """Something that is stored could not be read back."""


class NewerFormatError(StoreReadError):
    """A newer ctxkit wrote it; it is left as it is, for reading it half would be losing the rest."""


class RecordNotFoundError(StoreError):
    """Nothing is stored under the reference that was asked for."""


class SessionLockedError(CtxkitError):
    """Another owner holds the session; the message names it.

    Args:
        message: Which session, who holds it since when, and what to do.
        holder: The lock's record of its owner, as plain JSON; `None` where there is none.
    """

    def __init__(self, message: str, *, holder: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class ContextUnfitError(CtxkitError):
    """The request cannot be made to fit the context window; nothing was touched.

    Args:
        message: What does not fit, by how much, and what to do.
        needed_tokens: Tokens of the smallest request that could be made.
        limit_tokens: Tokens that the request may have.
        biggest: The biggest parts as (description, tokens), biggest first.
    """

    def __init__(
        self,
        message: str,
        *,
        needed_tokens: int,
        limit_tokens: int,
        biggest: Sequence[tuple[str, int]] = (),
    ) -> None:
        super().__init__(message)
        self.needed_tokens = needed_tokens
        self.limit_tokens = limit_tokens
        self.biggest = tuple(biggest)
