"""Shortens the arguments of a tool call and leaves them valid JSON with the same keys."""

import json
from collections.abc import Callable
from typing import Final

from ctxkit.results._base import Ruler
from ctxkit.results.admission import Limits, fits
from ctxkit.results.json_fit import JsonFitter
from ctxkit.results.json_walk import JsonWalker, NotJsonError, skip_space

_TRIES: Final = 5
_KEY: Final = "_truncated"
"""The one key that stands where the arguments are no JSON object, or have more keys than fit."""


async def shorten_arguments(arguments: str, *, limits: Limits, ruler: Ruler, reference: str | None) -> str:
    """Return a tool call's arguments as they stand in the context.

    Long strings keep both ends with a note between them, lists their first items with a note behind them.

    Args:
        arguments: JSON text, or what a model gave instead.
        limits: How much may stand.
        ruler: Measures and cuts.
        reference: Where the full arguments are stored, or `None` where they are not.

    Returns:
        The arguments as they are if they fit; else a JSON object of at most `limits.tokens` tokens, or one with a
        note alone where not even that fits.
    """
    if await fits(arguments, limits.tokens, ruler):
        return arguments
    stored = f"; full text: {reference}" if reference is not None else ""

    def note(chars: int) -> str:
        return f"…[{chars} characters omitted{stored}]…"

    try:
        shortened = await _object(arguments, limits, ruler, note)
    except (NotJsonError, RecursionError):
        shortened = None
    return shortened or await _wrapped(arguments, limits, ruler, note)


async def _object(text: str, limits: Limits, ruler: Ruler, note: Callable[[int], str]) -> str | None:
    """Fit a JSON object with all its keys, or return `None` where they do not fit.

    Raises:
        NotJsonError: It is none.
    """
    start = skip_space(text, 0)
    if text[start : start + 1] != "{":
        raise NotJsonError
    chars = len(await ruler.head(text[start:], limits.tokens))
    rate = limits.tokens / max(1, chars)
    walker = JsonWalker(text, reach=chars)
    end = (await walker.container(start)).end
    if skip_space(text, end) != len(text):
        raise NotJsonError
    for _ in range(_TRIES):
        fitter = JsonFitter(
            text,
            walker,
            ruler=ruler,
            tokens_per_char=rate,
            head_ratio=limits.head_ratio,
            note=note,
            keeps_keys=True,
        )
        kept = await fitter.fit(start, end, chars)
        tokens = await ruler.count(kept)
        if tokens <= limits.tokens:
            await JsonWalker(kept, reach=len(kept)).prove(0)
            return kept
        chars = int(chars * 0.95 * limits.tokens / tokens)
    return None


async def _wrapped(text: str, limits: Limits, ruler: Ruler, note: Callable[[int], str]) -> str:
    """Return an object of one key that holds both ends of the text."""
    budget = limits.tokens - await ruler.count(json.dumps({_KEY: note(len(text))}))
    for _ in range(_TRIES):
        head_tokens = int(budget * limits.head_ratio)
        head = await ruler.head(text, head_tokens) if head_tokens > 0 else ""
        tail = await ruler.tail(text, budget - head_tokens) if budget > head_tokens else ""
        said = note(len(text) - len(head) - len(tail))
        wrapped = json.dumps({_KEY: f"{head}{said}{tail}"}, ensure_ascii=False)
        tokens = await ruler.count(wrapped)
        if tokens <= limits.tokens:
            return wrapped
        budget = int(budget * 0.95 * limits.tokens / tokens)
    return json.dumps({_KEY: note(len(text))}, ensure_ascii=False)
