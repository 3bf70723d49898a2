"""The two sides of what stores a context: the host's workspace, and ctxkit's store on files behind the same methods."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentscope.workspace import LocalWorkspace

from ctxkit import FileStore, HostCodec, StoreOffloader
from ctxkit.offload.redact import DEFAULT_REDACTOR

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from benchmarks._agents import Side


@asynccontextmanager
async def open_side(side: Side, folder: Path, *, redact: bool = False, **options: Any) -> AsyncIterator[Any]:
    """Open what one side stores with, durably on ctxkit's side; stock knows neither redaction nor durability.

    Args:
        side: Whose it is.
        folder: Where everything goes.
        redact: Whether secrets are replaced, by ctxkit's own redactor.
        **options: Further ones of `StoreOffloader`.
    """
    if side == "stock":
        workspace = LocalWorkspace(workdir=str(folder))
        await workspace.initialize()
        try:
            yield workspace
        finally:
            await workspace.close()
        return
    store = FileStore(folder)
    try:
        yield StoreOffloader(store, HostCodec(), redactor=DEFAULT_REDACTOR if redact else None, **options)
    finally:
        await store.aclose()
