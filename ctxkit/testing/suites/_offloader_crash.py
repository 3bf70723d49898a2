"""Promises of an offloader when processes die or write side by side."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from ctxkit.testing.suites._base import Bench, place_in, run
from ctxkit.testing.suites._offloader import OffloaderPart, said, usable, words_in
from ctxkit.testing.suites._processes import Child, all_at_once, must_outlive, must_share, one_after_another

_LONGEST_S: Final = 0.08
"""Seconds from the first acknowledgement to the kill, at most."""

Say = Callable[[str], None]


class CrashPromises(OffloaderPart):
    """What an offloader promises across processes, and when they are killed."""

    def test_what_a_killed_process_was_told_is_there_once(self, tmp_path: Path) -> None:
        must_outlive(self)
        chance = random.Random(1)
        before: list[str] = []
        calls = [("s", f"w{turn}") for turn in range(self.kills)]
        children = one_after_another(self, place_in(tmp_path), "write_until_killed", calls=calls)
        with closing(children):
            for (session, name), child in zip(calls, children, strict=True):
                child.go()
                child.wait_for_a_word()
                lines = child.kill_after(chance.uniform(0.0, _LONGEST_S))
                before += lines
                run(self, tmp_path, partial(_check, session=session, told=_told(before), repeat=f"{name}n{len(lines)}"))

    def test_many_processes_at_once_lose_and_repeat_nothing(self, tmp_path: Path) -> None:
        must_share(self)
        place, count = place_in(tmp_path), str(self.appends)
        with ExitStack() as stack:
            children = [
                stack.enter_context(Child(self, place, "write_all", "s", f"w{number}", count))
                for number in range(self.writers)
            ]
            all_at_once(children)
            lines = [line for child in children for line in child.finish()]
        run(self, tmp_path, partial(_check, session="s", told=_told(lines), repeat=None))

    async def write_until_killed(self, offloader: Any, say: Say, session: str, name: str) -> None:
        """Offload messages, in a process of its own, and say each that was acknowledged."""
        number = 0
        while True:
            await _write(offloader, say, session, f"{name}n{number}")
            number += 1

    async def write_all(self, offloader: Any, say: Say, session: str, name: str, count: str) -> None:
        """Offload so many messages, in a process of its own."""
        for number in range(int(count)):
            await _write(offloader, say, session, f"{name}n{number}")


async def _write(offloader: Any, say: Say, session: str, word: str) -> None:
    say(f"{word} {usable(await offloader.offload_context(session, msgs=[_message(word)]))}")


def _message(word: str) -> Any:
    return said(word, text="x" * (int(word.partition("n")[2]) * 7919 % 9000))


def _told(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the reference that came for each word."""
    return {word: reference for word, _, reference in (line.partition(" ") for line in lines)}


async def _check(
    suite: OffloaderPart, bench: Bench[Any], *, session: str, told: Mapping[str, str], repeat: str | None
) -> None:
    offloader = await bench.open()
    references = list(told.values())
    if repeat is not None:
        # Who was not told asks again, as after any failure.
        messages = [_message(word) for word in (list(told)[-1], repeat)]
        references.append(usable(await offloader.offload_context(session, msgs=messages)))
    words = [*told, *([repeat] if repeat else [])]
    found = words_in(await suite.text(offloader, *references), words)
    missing = set(words) - set(found)
    assert not missing, f"acknowledged, but not there: {len(missing)} of {len(words)}, for example {min(missing)}"
    assert len(found) == len(set(found)), "a message is there twice"
