"""Which errors are still open: an error is over when the same work goes well later."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ctxkit.ledger.adapters import Deed, adapted
from ctxkit.ledger.calls import Call
from ctxkit.ledger.facts import Facts, raw_texts, scan_block
from ctxkit.ledger.shell import FILE_PROGRAMS, READERS, Work, is_question, works_of

if TYPE_CHECKING:
    from agentscope.message import Msg

    from ctxkit.port import Block

Key = tuple[str, ...]
"""What work is told by: `run`, program and words; `file`, `read` or `change`, and the path; or `tool` and its name."""

MOST_OPEN: Final = 12
"""Errors of the newest so many pieces of work count as open for strategies: in place, each takes room."""


def deed_of(started: Facts, ended: Facts, said: Deed | None = None) -> Deed:
    """Return what a call did.

    Args:
        started: The facts of the call.
        ended: The facts of its result.
        said: What the tool's adapter says, which goes before what the names suggest.
    """
    call = started.call or Call(text="")
    if said is not None:
        return said
    tests = ended.tests if call.works and _shows_own_tests(call.works[-1]) else {}
    problem = ended.problem
    files = call.files if problem is None else call.early
    return Deed(files=files, command=call.command, exit_code=ended.exit_code, problem=problem, tests=tests)


def failed_work(name: str, started: Facts, deed: Deed) -> Key | None:
    """Return what must go well for an error to be over; `None` where the call failed at nothing."""
    if deed.problem is None:
        return None
    if deed.work:
        return ("tool", name, deed.work)
    works = _works_of(started, deed)
    if works:
        return None if is_question(works[-1]) else _run(works[-1])
    files = deed.files or (started.call.files if started.call else ())
    return _file(*files[0]) if files else ("tool", name)


def done_work(name: str, started: Facts, ended: Facts, deed: Deed) -> list[Key]:
    """Return what a call shows to work; nothing where it failed, or may have failed.

    Args:
        name: The tool's name.
        started: The facts of the call.
        ended: The facts of its result.
        deed: What it did.
    """
    if deed.problem is not None or (deed.command is not None and ended.errors and ended.exit_code is None):
        return []
    if deed.work:
        return [("tool", name, deed.work)]
    works = _works_of(started, deed)
    sure = [work for work in works if not (work.is_piped and ended.errors)]
    done = [*map(_run, sure), *(_file(path, operation) for path, operation in deed.files)]
    return done if done or works else [("tool", name)]


def may_have_failed(started: Facts, ended: Facts, deed: Deed) -> bool:
    """Whether a command shows errors and no exit code of its own says that they are none; that of a pipe is another's."""
    works = _works_of(started, deed)
    return bool(ended.errors) and (deed.exit_code is None or (bool(works) and works[-1].is_piped))


def _works_of(started: Facts, deed: Deed) -> tuple[Work, ...]:
    call = started.call or Call(text="")
    return call.works if deed.command == call.command else works_of(deed.command or "")


def is_shown(failed: Key, done: Iterable[Key]) -> bool:
    """Whether work that went well shows that an error is over."""
    return any(_covers(key, failed) for key in done)


def _covers(done: Key, failed: Key) -> bool:
    if done == failed:
        return True
    if done[0] == "run" == failed[0]:
        return Work(program=done[1], words=done[2:]).covers(Work(program=failed[1], words=failed[2:]))
    if done[0] == "file" and failed[0] == "file":
        return done[2] == failed[2] and (done[1] == "change" or failed[1] == "read")
    if done[0] != "file" or failed[0] != "run" or failed[1] not in FILE_PROGRAMS:
        return False
    return done[2] in failed[2:] and (done[1] == "change" or failed[1] in READERS)


def _run(work: Work) -> Key:
    return ("run", work.program, *work.words)


def _file(path: str, operation: str) -> Key:
    return ("file", "read" if operation == "read" else "change", path)


def _shows_own_tests(work: Work) -> bool:
    """Whether tests in the output of a program were run by it, and do not stand in what it prints."""
    return not (is_question(work) or work.program in READERS or work.program.startswith("git "))


async def open_errors(messages: "Sequence[Msg]") -> frozenset[str]:
    """Return the ids of the calls whose error nothing has resolved since.

    An error is resolved where the same tool, program or file operation goes well later on the same, or on more of it;
    where it fails anew, the newer error counts. What has been scanned before costs a look-up.

    Args:
        messages: The context, oldest first.
    """
    asked: dict[str, tuple[Block, Facts]] = {}
    failed: dict[Key, str] = {}
    for message in messages:
        for block in message.content:
            if block.type == "tool_call":
                asked[block.id] = (block, await scan_block(block, role=message.role))
            elif block.type == "tool_result" and block.id in asked:
                call, started = asked.pop(block.id)
                _settle(failed, call, block, started, await scan_block(block, role=message.role))
    return frozenset(list(failed.values())[-MOST_OPEN:])


def _settle(failed: dict[Key, str], call: "Block", result: "Block", started: Facts, ended: Facts) -> None:
    """Take note of how one call ended."""
    name = str(getattr(call, "name", ""))
    deed = deed_of(started, ended, adapted(call, result, "\n".join(raw_texts(result))))
    done = done_work(name, started, ended, deed)
    for key in [key for key in failed if is_shown(key, done)]:
        del failed[key]
    work = failed_work(name, started, deed)
    if work is not None:
        failed.pop(work, None)
        failed[work] = ended.call_id or ""
