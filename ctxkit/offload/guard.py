"""The guard round an offloader: whatever it does, the reply goes on and nothing is taken for stored that is not."""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ctxkit.errors import ConfigError
from ctxkit.offload.changes import ORIGINAL
from ctxkit.offload.offloader import StoreOffloader, told_keys
from ctxkit.offload.redact import Redactor, counting, redact_body, redact_messages, redact_result
from ctxkit.offload.store import Record, Store
from ctxkit.port import Codec

if TYPE_CHECKING:
    from agentscope.message import DataBlock, Msg, ToolResultBlock

logger = logging.getLogger("ctxkit.offload")

_FAILURES: Final = 3
"""So many failures one after another, and the offloader is left alone for a while."""
_REST_S: Final = 60.0
_REFERENCE_CHARS: Final = 1000
"""A reference stands in the prompt again and again: a longer one is none."""
_ERROR_CHARS: Final = 300

_GUARDED: Final[ContextVar[bool]] = ContextVar("ctxkit_offload_guarded", default=False)


def is_guarded() -> bool:
    """Tell whether an offloader is being called by ctxkit, not by the host."""
    return _GUARDED.get()


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What came of storing something."""

    reference: str | None = None
    """What to name in the context; `None` where it is stored nowhere."""
    recallable: bool = False
    """Whether the recall tools can read it back."""
    keys: tuple[str, ...] = ()
    """Keys of the records that messages became in the guard's `store`, in order; empty where they are not there."""
    error: str | None = None
    """What went wrong, also where it was stored in the other place; `None` where nothing did."""


class OffloadGuard:
    """Calls an offloader with a deadline, checks what it returns, and keeps a copy that can be read back.

    Nothing but cancellation leaves its methods: a failure is logged and comes back as `Stored.error`. After three
    failures in a row an offloader that is not backed by a `Store` is not called for 60 s.

    Args:
        offloader: The agent's offloader: one of ctxkit's, anybody's, or `None`, which is no failure.
        codec: Builds and writes the host's blocks and messages.
        timeout_s: Seconds that one call may take.
        local: Keeps a copy where the offloader cannot be read back (it has no `store`); `None` for no copy.
        redactor: Redacts what an offloader gets that does not redact by itself (it has no `redactor`), and ctxkit's own
            records; `None` for nothing.
        clock: Gives monotonic seconds.
    """

    def __init__(
        self,
        offloader: object | None,
        *,
        codec: Codec,
        timeout_s: float,
        local: Store | None = None,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._offloader = offloader
        self._timeout_s = timeout_s
        self._clock = clock
        own = getattr(offloader, "store", None)
        self._readable = isinstance(own, Store)
        self.store: Store | None = own if isinstance(own, Store) else local
        """What the recall tools read; `None` where nothing can be read back."""
        self.through: Callable[[], Store | None] | None = None
        """Gives `store` as the session's owner uses it; unset for the store itself."""
        self.on_redacted: Callable[[Mapping[str, int]], None] | None = None
        """Is told how many secrets of each kind a call has replaced, where it has."""
        self._codec = codec
        self._redactor = redactor
        redacts_itself = hasattr(offloader, "redactor") or (offloader is None and local is None)
        self._before = None if redacts_itself else redactor
        """Redacts what is stored, once for both places."""
        by_itself = redactor if self._before is None else None
        self._local = None if self._readable or local is None else StoreOffloader(local, codec, redactor=by_itself)
        self._failures = 0
        self._resting_until = float("-inf")
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_recallable(self) -> bool:
        """Whether what is stored can be read back by the recall tools."""
        return self.store is not None

    @property
    def takes_media(self) -> bool:
        """Whether there is a place for images and files, which may fail; without one they leave for good, as in the host."""
        return self._local is not None or hasattr(self._offloader, "offload_data_block")

    async def store_messages(self, session_id: str, msgs: "Sequence[Msg]") -> Stored:
        """Store messages that are about to leave the context; they are removed only if `reference` is set."""
        with self._telling():
            try:
                clean = await redact_messages(msgs, self._before, self._codec)
            except ConfigError as exc:
                return _refused(exc)
            ours, theirs = self._owner()
            with told_keys() as local_keys:
                local, trouble = None, None
                if self._local is not None:
                    local, trouble = await self.attempt(self._local.offload_context, session_id, clean, **ours)
            with told_keys() as foreign_keys:
                reference, error = await self._foreign("offload_context", session_id, msgs=clean, **theirs)
        keys = foreign_keys if self._local is None else local_keys
        return self._outcome(local, trouble, reference, error, keys=keys)

    async def store_records(self, session_id: str, records: Sequence[Record]) -> str | None:
        """Store records of ctxkit's own beside the messages, where there is a store; return what went wrong, or None."""
        if self.store is None:
            return None
        with self._telling():
            try:
                clean = [await self._redacted(record) for record in records]
            except ConfigError as exc:
                return _refused(exc).error
        store = self._view()
        _, error = await self.attempt((self.store if store is None else store).append, session_id, clean)
        return error

    async def store_originals(self, session_id: str, msgs: "Sequence[Msg]") -> tuple[tuple[str, ...], str | None]:
        """Store messages as they stand before a change, beside those that leave and in the store alone.

        Returns:
            The keys of their records, and what went wrong, or None; without a store neither.
        """
        if self.store is None or not msgs:
            return (), None
        with self._telling(), told_keys() as keys:
            keeper = StoreOffloader(self.store, self._codec, redactor=self._redactor)
            owner = self._view()
            through = {} if owner is None else {"through": owner}
            _, error = await self.attempt(keeper.offload_context, session_id, msgs, kind=ORIGINAL, **through)
        return tuple(keys), error

    async def store_result(self, session_id: str, result: "ToolResultBlock") -> Stored:
        """Store a whole tool result before it is shortened."""
        with self._telling():
            try:
                clean = result if self._before is None else await redact_result(result, self._before, self._codec)
            except ConfigError as exc:
                return _refused(exc)
            ours, theirs = self._owner()
            local, trouble = None, None
            if self._local is not None:
                local, trouble = await self.attempt(self._local.offload_tool_result, session_id, clean, **ours)
            reference, error = await self._foreign("offload_tool_result", session_id, clean, **theirs)
        return self._outcome(local, trouble, reference, error)

    async def store_data(self, session_id: str, block: "DataBlock") -> "DataBlock | None":  # noqa: ARG002 - media is shared by content; the other two need it
        """Return a copy of a media block that points at where its bytes are stored, or None where they are not."""
        stored: DataBlock | None
        stored, _ = await self._foreign("offload_data_block", block)
        if stored is None and self._local is not None:
            stored, _ = await self.attempt(self._local.offload_data_block, block)
        return stored

    def _owner(self) -> tuple[dict[str, Store], dict[str, Store]]:
        """Return the keywords by which the local copy, and an offloader on a store, write as the session's owner."""
        store = self._view()
        owner = {} if store is None else {"through": store}
        return owner, owner if self._readable else {}

    def _view(self) -> Store | None:
        return None if self.through is None else self.through()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell what is redacted within the block."""
        with counting() as counts:
            yield
        if counts and self.on_redacted is not None:
            self.on_redacted(dict(counts))

    async def _redacted(self, record: Record) -> Record:
        if self._redactor is None:
            return record
        return replace(record, body=await redact_body(record.body, self._redactor))

    def _outcome(
        self,
        local: str | None,
        trouble: str | None,
        reference: str | None,
        error: str | None,
        *,
        keys: Sequence[str] = (),
    ) -> Stored:
        problems = "; ".join(text for text in (error, trouble) if text) or None
        recallable = local is not None or (self._readable and reference is not None)
        return Stored(
            reference=reference or local,
            recallable=recallable,
            keys=tuple(keys) if recallable else (),
            error=problems,
        )

    async def _foreign(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, str | None]:
        """Call a method of the offloader: (what it returned or None, what went wrong or None)."""
        call = getattr(self._offloader, method, None)
        if call is None:
            return None, None if self._offloader is None else f"{_name(self._offloader)} has no {method}"
        if self._clock() < self._resting_until:
            return None, f"{_name(self._offloader)} rests for a while: it failed {self._failures} times in a row"
        value, error = await self.attempt(call, *args, **kwargs)
        if error is None:
            wrong = _wrong_block(value) if method == "offload_data_block" else _wrong_reference(value)
            if wrong is None:
                self._failures = 0
                return value, None
            error = f"{_name(self._offloader)}.{method} returned {wrong}"
            logger.warning("%s", error)
        self._failures += 1
        if self._failures >= _FAILURES and not self._readable:
            self._resting_until = self._clock() + _REST_S
        return None, error

    async def attempt(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, str | None]:
        """Run a call of the store as a task of its own with the deadline.

        Returns:
            The call's value or None, and what went wrong, which is logged, or None.
        """
        name = getattr(call, "__qualname__", None) or repr(call)[:100]
        token = _GUARDED.set(True)
        try:
            task = asyncio.create_task(_run(call, args, kwargs), name=f"ctxkit-{name}")
        finally:
            _GUARDED.reset(token)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait({task}, timeout=self._timeout_s)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()  # one that will not stop is left behind
            error = f"{name} took more than {self._timeout_s:g} s"
        elif task.cancelled():
            error = f"{name} cancelled itself"
        else:
            failure = task.exception()
            if failure is None:
                return task.result(), None
            if not isinstance(failure, Exception):
                raise failure
            error = _one_line(f"{name} failed: {type(failure).__name__}: {failure}")
        logger.warning("%s", error)
        return None, error

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # asked for, so that nobody warns about the failure of a call that came too late


async def _run(call: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    value = call(*args, **kwargs)
    return await value if inspect.isawaitable(value) else value


def _refused(error: ConfigError) -> Stored:
    logger.warning("nothing is stored: %s", error)
    return Stored(error=str(error))


def _one_line(text: str) -> str:
    return " ".join(text[: 4 * _ERROR_CHARS].split())[:_ERROR_CHARS]


def _name(offloader: object) -> str:
    return type(offloader).__name__


def _wrong_reference(value: object) -> str | None:
    """Say why a value cannot be named in a prompt as a reference; None where it can."""
    if not isinstance(value, str):
        return f"{type(value).__name__} instead of a reference: return a str"
    if not value.strip():
        return "an empty reference"
    if len(value) > _REFERENCE_CHARS:
        return f"a reference of {len(value)} characters: at most {_REFERENCE_CHARS} fit in a prompt"
    if not value.isprintable() or any(char in value for char in "<>\uff1c\uff1e"):
        return f"{value[:80]!r}: a reference is one line without control characters, '<' and '>'"
    return None


def _wrong_block(value: object) -> str | None:
    """Say why a value is no media block that points elsewhere; None where it is."""
    kind = getattr(getattr(value, "source", None), "type", None)
    return None if kind == "url" else f"{type(value).__name__} instead of a data block with a URL"
