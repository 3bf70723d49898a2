"""Token counts: by tokenizer and content class, calibrated and anchored on what providers report."""

from ctxkit.tokens.blocks import BlockScale
from ctxkit.tokens.calibration import Calibration
from ctxkit.tokens.chars import CHARS, block_chars, message_chars
from ctxkit.tokens.classes import ContentClass, classify
from ctxkit.tokens.count import count_text, serve_loop
from ctxkit.tokens.counter import ByteCounter, Counter, TiktokenCounter, default_counter, load_counter
from ctxkit.tokens.grapheme import ceil_cut, floor_cut
from ctxkit.tokens.media import media_tokens
from ctxkit.tokens.meter import Meter
from ctxkit.tokens.pricing import in_dollars, price_of, request_cost
from ctxkit.tokens.ruler import Ruler
from ctxkit.tokens.weight import Weight

__all__ = [
    "CHARS",
    "BlockScale",
    "ByteCounter",
    "Calibration",
    "ContentClass",
    "Counter",
    "Meter",
    "Ruler",
    "TiktokenCounter",
    "Weight",
    "block_chars",
    "ceil_cut",
    "classify",
    "count_text",
    "default_counter",
    "floor_cut",
    "in_dollars",
    "load_counter",
    "media_tokens",
    "message_chars",
    "price_of",
    "request_cost",
    "serve_loop",
]
