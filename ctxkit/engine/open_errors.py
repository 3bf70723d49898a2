"""Which errors are still open: their results say what is wrong, and stay until something has gone well instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxkit.ledger import scan_block
from ctxkit.tokens import serve_loop

if TYPE_CHECKING:
    from ctxkit.view import View


async def open_errors(view: View) -> frozenset[str]:
    """Return the ids of the calls whose error nothing has resolved since.

    An error is resolved where the same tool, of a shell the same program, works on the same files, or fails anew. So
    there are at most as many as programs and files in use. What has been scanned before costs a look-up.

    Args:
        view: The context.
    """
    failed: dict[object, str] = {}
    for exchange in view.exchanges:
        if exchange.result is None:
            continue
        asked = await scan_block(view.contents[exchange.call.message][exchange.call.block])
        answered = await scan_block(view.contents[exchange.result.message][exchange.result.block])
        told = asked.call
        program = "" if told is None or told.command is None else told.command.split(maxsplit=1)[0]
        files = () if told is None or program else tuple(path for path, _ in told.files)
        work = (exchange.tool, program, files)
        failed.pop(work, None)
        if answered.problem is not None:
            failed[work] = exchange.call_id
        await serve_loop()
    return frozenset(failed.values())
