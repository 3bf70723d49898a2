"""Tool results on their way into an agent's context."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from agentscope.message import TextBlock, ToolResultState

from ctxkit import telemetry
from ctxkit.engine import admit_result
from ctxkit.host._codec import MARK
from ctxkit.host._recall_tools import is_recall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import ToolCallBlock
    from agentscope.tool import ToolResponse

    from ctxkit.config import Settings
    from ctxkit.engine import Engine
    from ctxkit.host._port import HostPort
    from ctxkit.plan import Receipt

logger = logging.getLogger("ctxkit")

_NOT_STORED = (
    "\n<<<TRUNCATED>>>\n<system-reminder>The remaining content has been omitted for limited context. "
    "It could not be stored.</system-reminder>"
)


async def admitted(engine: Engine, response: ToolResponse, call: ToolCallBlock, settings: Settings) -> ToolResponse:
    """Return a tool's response as it may enter the context.

    Whatever goes wrong, nothing over the host's own limit is returned: the host would cut it and call an offloader that
    may be the very thing that is broken, which leaves the call without a result for ever.
    """
    try:
        if await is_recall(cast("HostPort", engine.port).agent, call.name):
            return await _recalled(engine, response, settings)
        result = await admit_result(engine, response.content, call_id=call.id, tool=call.name, settings=settings)
    except asyncio.CancelledError:
        # Told as a state, as the host's toolkit does it: where tools run in parallel the host swallows the exception
        # itself, and would go on as if nobody had interrupted it.
        beginning = await _beginning(engine, response, settings)
        return beginning.model_copy(update={"state": ToolResultState.INTERRUPTED})
    except Exception:
        logger.exception(
            "ctxkit could not admit the result of tool %r; only its beginning enters the context", call.name
        )
        return await _beginning(engine, response, settings)
    if result.shortened:
        engine.tell_later(
            telemetry.SHORTENED,
            tool=call.name,
            tokens_before=result.tokens_before,
            tokens_after=result.tokens_after,
            reference=result.reference,
        )
    if result.problem is not None:
        engine.tell_later(telemetry.STORE_FAILED, what=f"result of {call.name}", problem=result.problem)
    metadata = {**response.metadata, MARK: result.mark()}
    return response.model_copy(update={"content": list(result.pieces), "metadata": metadata})


async def _recalled(engine: Engine, response: ToolResponse, settings: Settings) -> ToolResponse:
    """Return the answer of a recall tool, marked so that it is never stored: what it says is in the store."""
    if await engine.port.host_count(response.content) > settings.tool_result_limit:
        return await _beginning(engine, response, settings)  # a limit that not even an empty page keeps to
    metadata = {**response.metadata, MARK: {"admitted": True, "recalled": True}}
    return response.model_copy(update={"metadata": metadata})


async def _beginning(engine: Engine, response: ToolResponse, settings: Settings) -> ToolResponse:
    """Return a response that is within the host's limit, without any of what may have failed."""
    text = "\n".join(piece.text for piece in response.content if piece.type == "text")
    # A mark that the tool itself has put there would say that its result is stored.
    response.metadata.pop(MARK, None)
    size = settings.tool_result_limit * 3
    while size > 0:
        kept = [TextBlock(text=text[:size] + (_NOT_STORED if len(text) > size else ""))]
        if await engine.port.host_count(kept) <= settings.tool_result_limit:
            return response.model_copy(update={"content": kept})
        size //= 2
    return response.model_copy(update={"content": []})


def told_by_receipt(response: ToolResponse, receipts: Sequence[Receipt]) -> ToolResponse:
    """Return the answer of the host's compression tool in words that are true.

    The host compares numbers of messages, so it reports "not long enough" where a part of one long message went.
    """
    if not receipts or response.state == ToolResultState.ERROR:
        return response
    last = receipts[-1]
    if last.outcome == "applied":
        text = f"Context compressed from about {last.tokens_before} to {last.tokens_after} tokens."
    elif last.outcome == "unneeded":
        text = (
            f"The context is not long enough to compress: about {last.tokens_before} tokens of the "
            f"{last.limit_tokens} from which on it pays. It remains unchanged."
        )
    else:
        text = f"The context could not be compressed and remains unchanged: {'; '.join(last.problems)}."
    return response.model_copy(update={"content": [TextBlock(text=text)]})
