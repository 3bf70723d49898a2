"""What `/context detail` says: turn by turn, the largest parts, what is pinned, and where the rest is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxkit.engine.layer import Layers
from ctxkit.tokens import block_chars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxkit.config import Settings
    from ctxkit.engine import Engine
    from ctxkit.port import Block
    from ctxkit.strategies import Situation

_MOST_TURNS: Final = 12
_MOST_PARTS: Final = 6
_MOST_PINS: Final = 10
_SAID_CHARS: Final = 60


async def detail(engine: Engine, settings: Settings) -> str:
    """Return what `/context detail` says of an agent's context.

    Args:
        engine: The agent's engine.
        settings: The agent's settings.

    Raises:
        ConfigError: Nobody knows the model's window.
    """
    reading = await engine.gauge.read(engine.port, unsure_factor=settings.window.estimate_factor)
    here = await engine.gauge.situation(reading, engine.view(), engine.port.summary, settings)
    return "\n".join([*_turns(here), *_largest(here), *_pins(engine), *_elsewhere(engine)])


def _turns(here: Situation) -> Iterator[str]:
    turns = here.view.turns
    left_out = len(turns) - _MOST_TURNS
    yield f"Turns: {len(turns)}" + (f", the newest {_MOST_TURNS} of them" if left_out > 0 else "")
    for number, turn in list(enumerate(turns, start=1))[-_MOST_TURNS:]:
        tokens = sum(sum(here.tokens[index]) for index in turn)
        counts = sum(sum(here.view.counts[index]) for index in turn)
        said = next(
            (block.text for index in turn for block in here.view.contents[index] if block.type == "text"), "no text"
        )
        yield f"  {number}. {tokens:,.0f} tokens, {counts} messages: {clipped(said)}"


def _largest(here: Situation) -> Iterator[str]:
    found = [(here.tokens[place.message][place.block], place, block) for place, block in here.view.blocks()]
    found.sort(key=lambda one: -one[0])
    yield "Largest:" if found else "Largest: nothing is there"
    for tokens, place, block in found[:_MOST_PARTS]:
        message = here.view.messages[place.message]
        yield f"  {tokens:,.0f} tokens: {_named(block)}, /explain {block.id} (message {message.id})"


def _pins(engine: Engine) -> Iterator[str]:
    pins = engine.steer.pins()
    yield f"Pinned: {len(pins)}" if pins else "Pinned: nothing"
    for pin in pins[-_MOST_PINS:]:
        yield f"  {pin.id}: {pin.tokens:,} tokens, {pin.where}: {clipped(pin.text)}"


def _elsewhere(engine: Engine) -> Iterator[str]:
    stubs = Layers(engine).current().stubs
    yield "Elsewhere:" if stubs else "Elsewhere: nothing has left"
    for stub in stubs:
        yield f"  {stub.text}"


def _named(block: Block) -> str:
    """Return what a block is, in words."""
    if block.type == "tool_call":
        return f"call of {block.name}"
    if block.type == "tool_result":
        return f"result of {block.name}, {block_chars(block):,} characters"
    return f"{block.type}, {block_chars(block):,} characters"


def clipped(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: 4 * _SAID_CHARS].split())
    return line if len(line) <= _SAID_CHARS and len(text) <= 4 * _SAID_CHARS else f"{line[:_SAID_CHARS].rstrip()}..."
