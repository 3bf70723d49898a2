"""What a ledger knows of one thing each: an identifier, a file, a command, an error, a test, a job."""

from typing import NamedTuple

from ctxkit.ledger.adapters import JobState
from ctxkit.ledger.suites import TestState


class Mention(NamedTuple):
    """What is known of one identifier."""

    blocks: int
    """Blocks that name it."""
    used: int
    """Blocks of the assistant that name it."""
    newest: int
    """Step of the newest of those blocks."""
    line: str = ""
    """The newest line in which it stood, where it says nothing without one."""


class Touch(NamedTuple):
    """When a file was touched last."""

    step: int
    digest: str = ""
    """BLAKE2b of what was written, 8 bytes in hex, where the call says all of it; empty where the content is not known."""


class Command(NamedTuple):
    """One command line and how it ended."""

    text: str
    outcome: str
    """`"ok"`, `"exit 1: ..."`, `"shows ..."` where errors stand in a result without an exit code, or `""` without one."""
    exit_code: int | None = None
    """As the result names it; `None` where it does not."""
    first_error: str = ""
    """The first error line, where it is another than the last one, which `outcome` has."""


class Failure(NamedTuple):
    """Something that went wrong, and whether it still does."""

    what: str
    """The tool and what it was to do."""
    said: str
    """Why it failed, one line."""
    step: int
    """When it failed last."""
    resolved: int = 0
    """The step at which the same went well; 0 while the error is open."""
    call_id: str = ""
    """Id of the call that failed last."""

    @property
    def is_open(self) -> bool:
        """Whether nothing has shown since that it works."""
        return not self.resolved


class Tested(NamedTuple):
    """How a test went last."""

    state: TestState
    step: int


class Job(NamedTuple):
    """A call that waits for its result, a job that goes on in the background, or a task on the host's list."""

    what: str
    """The tool and what it was to do, or the notice."""
    state: JobState
    step: int
    """When that became known."""
