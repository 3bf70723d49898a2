"""What all suites share: a test is a coroutine that gets a bench, and runs without any plugin of pytest.

A suite is subclassed in a user's test module, so that pytest collects the user's class with the tests of the suite.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Generic, NoReturn, TypeVar

import pytest

from ctxkit.errors import ConfigError

T = TypeVar("T")
_SuiteT = TypeVar("_SuiteT", bound="Suite")  # type: ignore[type-arg]  # a bound has no argument; `promise` binds it

_PLACE = ("outer", "place")
"""Where the back end may write below a test's own directory; whatever else appears there has escaped."""


class Suite(Generic[T]):
    """The base of all suites; the tests are in its subclasses.

    A test is called with pytest's `tmp_path`. Everything that it opens is opened and closed on one event loop, which is
    its own.
    """

    timeout_s: ClassVar[float] = 60.0
    """Seconds that one test may take; what hangs fails."""
    durable: ClassVar[bool] = True
    """Whether what was stored outlives the object: two that are opened on one place see the same."""
    processes: ClassVar[bool] = True
    """Whether several processes may have one place open at the same time."""
    kills: ClassVar[int] = 6
    """Rounds of the tests that kill a process."""
    writers: ClassVar[int] = 4
    """Processes that write side by side."""
    appends: ClassVar[int] = 25
    """Calls of each of these processes."""
    tasks: ClassVar[int] = 256
    """Tasks that write side by side."""
    factory: ClassVar[str] = "open_store"
    """The method that a user gives."""

    def _open(self, place: Path) -> T | Awaitable[T]:
        # No abstract method: pytest passes over abstract classes in silence.
        msg = f"{type(self).__name__} has no {self.factory}: define {self.factory}(self, place)."
        raise ConfigError(msg)

    async def _close(self, opened: T) -> None:
        close = getattr(opened, "aclose", None)
        if close is not None:
            await close()


class Bench(Generic[T]):
    """What one test has opened, all of it on one place.

    Args:
        suite: Opens and closes.
        tmp_path: A directory of the test's own.
    """

    def __init__(self, suite: Suite[T], tmp_path: Path) -> None:
        self._suite = suite
        self._opened: list[T] = []
        self._is_used = False
        self._outside = tmp_path
        self.place = place_in(tmp_path)

    async def open(self) -> T:
        """Open the place, once more if it is open; skip the test where that cannot be done."""
        if self._is_used and not self._suite.durable:
            pytest.skip("durable = False: one object is all there is, so there is no second one on the same place")
        self._is_used = True
        opened = self._suite._open(self.place)  # noqa: SLF001 - the two are one
        ready = await opened if inspect.isawaitable(opened) else opened
        self._opened.append(ready)
        return ready

    async def close(self) -> None:
        """Close everything that is open."""
        while self._opened:
            await self._suite._close(self._opened.pop())  # noqa: SLF001 - the two are one

    def escaped(self) -> Sequence[str]:
        """Return what stands beside the place; it touches the disk, so call it away from the event loop."""
        beside = (path for path in self._outside.rglob("*") if path != self.place and self.place not in path.parents)
        return sorted(str(path) for path in beside if path != self.place.parent)


def place_in(tmp_path: Path) -> Path:
    """Return the place of a test, made where it is not there yet."""
    place = tmp_path.joinpath(*_PLACE)
    place.mkdir(parents=True, exist_ok=True)
    return place


def run(suite: _SuiteT, tmp_path: Path, test: Callable[[_SuiteT, Bench[T]], Awaitable[None]]) -> None:
    """Run a coroutine on a bench and an event loop of its own, and close what it has opened.

    Args:
        suite: Opens and closes.
        tmp_path: A directory of the test's own; calls with the same one have the same place.
        test: The coroutine function.
    """
    __tracebackhide__ = True
    bench: Bench[T] = Bench(suite, tmp_path)
    with asyncio.Runner() as runner:
        try:
            runner.run(_in_time(suite.timeout_s, test(suite, bench), bench))
        except TimeoutError:
            pytest.fail(f"not done after {suite.timeout_s:g} s: a call hangs, or raise `timeout_s` if it is only slow")
        except BaseException as exc:  # noqa: BLE001 - raised again, whatever it is
            # What asyncio did on the way to the test tells a reader nothing.
            trace = exc.__traceback__
            while trace is not None and trace.tb_frame.f_code is not getattr(test, "__code__", None):
                trace = trace.tb_next
            raise exc.with_traceback(trace or exc.__traceback__)  # noqa: B904 - it is the same exception


def promise(test: Callable[[_SuiteT, Bench[T]], Awaitable[None]]) -> Callable[[_SuiteT, Path], None]:
    """Make a test of a coroutine, one that needs pytest only."""

    def run_it(self: _SuiteT, tmp_path: Path) -> None:
        __tracebackhide__ = True
        run(self, tmp_path, test)

    # Not `functools.wraps`: pytest would follow `__wrapped__` and ask for a fixture named `bench`.
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(run_it, name, getattr(test, name))
    return run_it


async def _in_time(timeout_s: float, test: Awaitable[None], bench: Bench[T]) -> None:
    __tracebackhide__ = True
    async with asyncio.timeout(timeout_s):
        try:
            await test
        finally:
            await bench.close()


def not_offered(store: object, capability: type) -> NoReturn:
    """Skip a test of a capability that a back end does not have."""
    pytest.skip(f"{type(store).__name__} does not offer ctxkit.offload.capabilities.{capability.__name__}")


class refused:  # noqa: N801 - reads as a sentence: `with refused(StoreWriteError, "an empty key"):`
    """Fail unless the block raises an error of this type.

    Args:
        error: What is promised to be raised.
        what: What is being tried, for the message.
    """

    def __init__(self, error: type[Exception], what: str) -> None:
        self._error = error
        self._what = what

    def __enter__(self) -> None:
        """Nothing happens before the block."""

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None) -> bool:
        __tracebackhide__ = True
        if exc is None:
            self._accepted()
            return True
        if isinstance(exc, self._error):
            if not str(exc).strip():
                pytest.fail(f"{self._what}: {type(exc).__name__} without a message; say what, where and why")
            return True
        if isinstance(exc, Exception) and not isinstance(exc, AssertionError):
            wanted = self._error.__name__
            msg = f"{self._what}: {type(exc).__name__} ({exc}) instead of {wanted}; callers handle nothing else"
            raise AssertionError(msg) from exc  # noqa: TRY004 - it is a failure of a test
        return False

    def _accepted(self) -> None:
        __tracebackhide__ = True
        pytest.fail(f"{self._what}: accepted, but {self._error.__name__} is promised")


class may_fail(refused):  # noqa: N801 - as above
    """Go on behind the block where it raises an error of this type; fail where it raises another one."""

    def _accepted(self) -> None:
        """It need not fail."""
