"""Two owners of one session: the second waits or is told who holds it, and one that hangs loses it."""

import asyncio
import tempfile
from pathlib import Path

from ctxkit import SessionLockedError, SessionLocks


async def main() -> None:
    """Hold a session as two owners do, in one process or in two."""
    path = Path(await asyncio.to_thread(tempfile.mkdtemp)) / "letters.lock"

    async with SessionLocks(timeout_s=0.5, max_hold_s=300) as locks:
        first, second = object(), object()

        async with locks.hold("letters", owner=first, path=path, note="agent scribe") as hold:
            async with locks.hold("letters", owner=first, path=path):
                print("An owner may take what it holds.")
            try:
                await locks.take("letters", owner=second, path=path)
            except SessionLockedError as error:
                print(error)
            hold.touch()  # a sign of life, from which the limit counts anew
            hold.extend(600)  # so long may the next piece of work take

        async with locks.hold("letters", owner=second, path=path) as later:
            print(f"Later it may, with a higher number: {later.epoch > hold.epoch}.")


if __name__ == "__main__":
    asyncio.run(main())
