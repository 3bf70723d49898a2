"""Releasing locks on signals that end the process, for those who ask for it.

The kernel frees the locks of a process that dies, however it dies, so nobody needs this for safety. It is for a process
whose own handlers keep it alive for a while after a signal, and which is to give its sessions away at once.
"""

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

logger = logging.getLogger("ctxkit.sessions")

_NAMES: Final = ("SIGINT", "SIGTERM", "SIGQUIT", "SIGABRT")
"""Those that the OpenClaw session lock releases on; Windows has no SIGQUIT."""


class SignalRelease:
    """Calls something when a signal comes that ends the process, and then what was there before.

    A signal that is ignored stays ignored, and one whose handler was not set from Python is left alone.

    Args:
        release: What to call: short, and without taking a lock that the main thread may hold.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Set the handlers; a second time, or outside the main thread, does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        for name in _NAMES:
            number = getattr(signal, name, None)
            before = None if number is None else signal.getsignal(number)
            if number is None or number in self._before or before is None or before is signal.SIG_IGN:
                continue
            self._before[number] = before
            signal.signal(number, self._handle)

    def restore(self) -> None:
        """Set the handlers from before; where others were set on top of these, these only pass the signal on."""
        if threading.current_thread() is not threading.main_thread():
            logger.warning("Signal handlers stay set: aclose() of the locks was called outside the main thread.")
        else:
            for number, before in tuple(self._before.items()):
                if signal.getsignal(number) == self._handle:
                    del self._before[number]
                    signal.signal(number, before)
        self._release = _nothing

    def _handle(self, number: int, frame: FrameType | None) -> None:
        try:
            self._release()
        finally:
            before = self._before.get(signal.Signals(number), signal.SIG_DFL)
            if callable(before):
                before(number, frame)
            else:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)


def _nothing() -> None:
    """Release nothing: the locks are closed."""
