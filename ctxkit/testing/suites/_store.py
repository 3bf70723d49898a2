"""What the parts of `StoreSuite` have in common: how a store is opened and closed."""

from collections.abc import Awaitable
from pathlib import Path

from ctxkit.offload import Store
from ctxkit.testing.suites._base import Suite


class StorePart(Suite[Store]):
    """The base of the parts of `StoreSuite`."""

    def open_store(self, place: Path) -> Store | Awaitable[Store]:
        """Return a store that keeps its data in a place; may be `async def`.

        Called several times with one place: what comes back are several clients of the same data. Unless the suite says
        `durable = False`, it is called in processes of its own too, so it may use the place, the environment and the
        class, but no fixtures.

        Args:
            place: A directory that is there and empty at first. A back end that is no directory takes its text as the
                name of a bucket, a schema or a prefix of its own.
        """
        return super()._open(place)

    async def close_store(self, store: Store) -> None:
        """Close a store; by default its `aclose` is awaited, if it has one."""
        await super()._close(store)

    def _open(self, place: Path) -> Store | Awaitable[Store]:
        return self.open_store(place)

    async def _close(self, opened: Store) -> None:
        await self.close_store(opened)
