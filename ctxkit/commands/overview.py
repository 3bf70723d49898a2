"""What `/context` says: how full the window is, of what, and what keeping it so has cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ctxkit.commands.answers import counted
from ctxkit.engine.steer.bill import bill_of_receipt
from ctxkit.engine.steer.explain import changes_of
from ctxkit.errors import ConfigError, StoreError
from ctxkit.plan import Reason
from ctxkit.tokens import in_dollars, message_chars, price_of, serve_loop
from ctxkit.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentscope.message import Msg

    from ctxkit.config import Settings
    from ctxkit.engine import Engine
    from ctxkit.strategies import Situation

_BAR_CHARS: Final = 20
_ROLES: Final = ("system", "user", "assistant", "tool")
CLEARED: Final = "clear_context"
"""The rule that clears a whole context, which is no compression."""


async def overview(engine: Engine, settings: Settings) -> str:
    """Return what `/context` says of an agent's context.

    Args:
        engine: The agent's engine.
        settings: The agent's settings.
    """
    lines = [f"Context of {engine.port.name!r}, session {engine.port.session_id!r}"]
    messages: Sequence[Msg] = engine.port.context
    try:
        reading = await engine.gauge.read(engine.port, unsure_factor=settings.window.estimate_factor)
        here = await engine.gauge.situation(reading, engine.view(), engine.port.summary, settings)
        trigger = await engine.trigger_tokens(settings)
    except ConfigError as exc:  # nobody knows the window
        parts = [f"Tokens: not known. {exc}"]
    else:
        messages = reading.request.messages
        lines.append(window_bar(here.request_tokens, here.context_size, trigger))
        parts = [f"Tokens: {_parts(here)}"]
    roles = roles_of(messages)
    shares = ", ".join(f"{roles[role]} {role}" for role in _ROLES if roles[role])
    turns = len(engine.view().turns)
    lines.append(f"Messages: {roles.total()} as a provider counts them ({shares or 'none'}), {counted(turns, 'turn')}")
    chars = 0
    for message in messages:
        chars += message_chars([message])
        await serve_loop()
    lines.append(f"Characters: {chars:,}")
    lines += parts
    lines.append(f"Compressions: {await _compressions(engine)}")
    lines.append(f"Money: {_money(engine, settings)}")
    return "\n".join(lines)


def window_bar(tokens: int, context_size: int, trigger_tokens: int) -> str:
    """Return a bar of plain characters that shows how full a window is, and the figures behind it."""
    share = tokens / context_size
    full = min(_BAR_CHARS, round(_BAR_CHARS * share))
    bar = f"[{'#' * full}{'-' * (_BAR_CHARS - full)}]"
    return f"{bar} {share:.0%} of the window: {tokens:,} of {context_size:,} tokens, compressed at {trigger_tokens:,}"


def roles_of(messages: Sequence[Msg]) -> Counter[str]:
    """Return how many messages of each role there are in a provider's format, in which a tool's result is one."""
    view = View(messages)
    roles: Counter[str] = Counter()
    for message, content, counts in zip(view.messages, view.contents, view.counts, strict=True):
        for block, count in zip(content, counts, strict=True):
            special = {"tool_result": "tool", "hint": "user"}.get(block.type)
            roles[special or str(message.role)] += count
    return roles


def _parts(here: Situation) -> str:
    """Return what of a request has how many tokens; together they are the request's."""
    system = sum(tokens for name, tokens in here.fixed_parts if name == "system prompt")
    tools = sum(tokens for _, tokens in here.fixed_parts) - system
    context = round(sum(map(sum, here.tokens)))
    summary = max(0, here.request_tokens - here.fixed_tokens - context)
    # What was measured by the provider's own count is not told apart there.
    rest = here.request_tokens - system - tools - summary - context
    parts = {"system prompt": system, counted(len(here.fixed_parts) - 1, "tool"): tools, "summary": summary}
    parts["messages"] = context
    if rest:
        parts["not told apart"] = rest
    return ", ".join(f"{name} {tokens:,}" for name, tokens in parts.items())


async def _compressions(engine: Engine) -> str:
    """Return how many compressions are in force, and what the newest of this process did."""
    try:
        reasons: Counter[str] = Counter()
        async for change, is_undone in changes_of(engine):
            if change.reason is Reason.MEMORY:
                continue  # a compression that was counted already has its summary now
            is_clear = all(part.edit.rule == CLEARED for part in change.parts)
            reasons["taken back" if is_undone else "cleared" if is_clear else "in force"] += 1
    except StoreError as exc:
        return f"not known, for the store cannot be read: {exc}"
    applied = [
        receipt for receipt in engine.receipts if receipt.outcome == "applied" and receipt.reason is not Reason.MEMORY
    ]
    if engine.guard.store is None:
        reasons["in force"] = len(applied)
    said = str(reasons["in force"])
    more = [f"{reasons[name]} {name}" for name in ("cleared", "taken back") if reasons[name]]
    if applied:
        last = applied[-1]
        more.append(f"the newest by {last.reason}, {last.tokens_before:,} to {last.tokens_after:,} tokens")
    return f"{said} ({', '.join(more)})" if more else said


@dataclass(kw_only=True)
class _Spent:
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    units: float = 0.0
    saved: float = 0.0


def _money(engine: Engine, settings: Settings) -> str:
    """Return what the summaries of this process have cost, and what a step costs less for them."""
    writer = engine.port.model if settings.summary.model is None else engine.port.model_of(settings.summary.model)
    own, theirs = (
        price_of(key, settings.cost.price, ask_for_cache=settings.cost.ask_for_cache)
        for key in (engine.port.model.key, writer.key)
    )
    spent = _Spent()
    for receipt in engine.receipts:
        if receipt.usage is not None:
            spent.calls += 1
            spent.input_tokens += receipt.usage.input_tokens
            spent.output_tokens += receipt.usage.output_tokens
        written, read = bill_of_receipt(theirs, receipt), bill_of_receipt(own, receipt)
        spent.units += 0.0 if written is None else written.summary
        spent.saved += 0.0 if read is None else read.saved_a_step
    if not spent.calls:
        return "no summary was paid for since this process began"
    said = f"{counted(spent.calls, 'summary')}, {spent.input_tokens:,} tokens read and {spent.output_tokens:,} written"
    if theirs is None or own is None:
        return f"{said}; the prices of {(writer if theirs is None else engine.port.model).key!r} are not known"
    dollars, saved = in_dollars(theirs, spent.units), in_dollars(own, spent.saved)
    if dollars is None or saved is None:
        return f"{said}: as {spent.units:,.0f} uncached tokens; each step costs {spent.saved:,.0f} less"
    return f"{said}: ${dollars:.4f}; each step costs ${saved:.4f} less (prices: {theirs.source or 'given'})"
