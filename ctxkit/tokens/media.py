"""Media: what an image, a recording or a document costs, by the provider's own rule where it is known."""

from __future__ import annotations

import math
import re
from typing import Final, Literal

from ctxkit.tokens.picture import decode_head, picture_size

Family = Literal["openai", "anthropic", "gemini", "qwen", "other"]

_FAMILIES: Final[tuple[tuple[Family, re.Pattern[str]], ...]] = (
    ("anthropic", re.compile(r"claude|anthropic")),
    ("gemini", re.compile(r"gemini|gemma")),
    ("qwen", re.compile(r"qwen|qvq|dashscope")),
    ("openai", re.compile(r"gpt-|chatgpt|\bo[1-9]\b|\bo[1-9]-")),
)

_UNKNOWN_SIDE: Final = 1024
"""Side in pixels of an image whose size cannot be read (an address, a foreign format)."""
_BASE64_RATIO: Final = 0.75
"""Bytes a character of base64."""

_AUDIO_BYTES_PER_S: Final = 16_000
"""Of a recording in a compressed format: 128 kbit/s."""
_VIDEO_BYTES_PER_S: Final = 312_500
"""Of a film: 2.5 Mbit/s, usual for 720p."""
_AUDIO_TOKENS_PER_S: Final[dict[Family, int]] = {"gemini": 32, "qwen": 25, "openai": 10}
"""ai.google.dev/gemini-api/docs/tokens; DashScope's guide on audio; OpenAI's price page (1 token per 100 ms)."""
_VIDEO_TOKENS_PER_S: Final = 263
"""ai.google.dev/gemini-api/docs/tokens; the others take frames of about that weight."""
_PAGE_TOKENS: Final[dict[Family, int]] = {"gemini": 258, "anthropic": 2250}
"""A page of a PDF: Gemini's fixed 258; Anthropic's 1,500 to 3,000 (docs, "PDF support")."""
_OTHER_PAGE_TOKENS: Final = 1000
_PAGE_BYTES: Final = 100_000
_MOST_PAGES: Final = 100
"""Anthropic's limit a request, and a bound on what a guess may claim."""
_UNKNOWN_TOKENS: Final = 2000
"""Media of which nothing is known: AgentScope's own flat estimate."""


def media_tokens(media_type: str, data: str | None, *, model_key: str) -> int:  # noqa: PLR0911 - one a kind
    """Return the input tokens of one piece of media, at least 1.

    Images follow the family's rule: OpenAI tiles or patches (platform.openai.com, "Images and vision"), Anthropic
    w*h/750 of at most 1,568 pixels a side, Gemini 258 a tile of 768 pixels, Qwen a token per 28x28 pixels, at most 1,280
    (32x32 from Qwen3 on, at most 2,560). For other models Anthropic's rule is taken, at most 2,000. Only the first
    kilobytes of the data are decoded, to read the size; an image without one counts as 1024x1024.

    Recordings, films and PDFs are guessed from the length of the data (and a WAV's or linearised PDF's header); without
    data they count 2,000.

    Args:
        media_type: MIME type, such as `"image/png"`.
        data: The content in base64, or `None` where there is only an address.
        model_key: The model, as `ModelPort.key` names it; chooses the rule.
    """
    family = family_of(model_key)
    kind = media_type.partition("/")[0].lower()
    if kind == "image":
        width, height = picture_size(data) if data else (None, None)
        if not width or not height:
            width = height = _UNKNOWN_SIDE
        return max(1, _image_tokens(width, height, family, model_key.lower()))
    if not data:
        return _UNKNOWN_TOKENS
    size = len(data) * _BASE64_RATIO
    if kind == "audio":
        return max(1, math.ceil(_audio_seconds(data, size) * _AUDIO_TOKENS_PER_S.get(family, 32)))
    if kind == "video":
        return max(1, math.ceil(size / _VIDEO_BYTES_PER_S * _VIDEO_TOKENS_PER_S))
    if media_type.lower() == "application/pdf":
        return _pdf_pages(data, size) * _PAGE_TOKENS.get(family, _OTHER_PAGE_TOKENS)
    if kind == "text" or media_type.lower() == "application/json":
        return max(1, math.ceil(size / 4))
    return _UNKNOWN_TOKENS


def family_of(model_key: str) -> Family:
    """Return the family whose rules a model follows; the model's name wins over that of the class that calls it."""
    host, _, name = model_key.lower().rpartition(":")
    for candidate in (name, host):
        for family, pattern in _FAMILIES:
            if candidate and pattern.search(candidate):
                return family
    return "other"


def _image_tokens(width: int, height: int, family: Family, model: str) -> int:
    if family == "openai":
        return _openai_image_tokens(width, height, model)
    if family == "gemini":
        return _gemini_image_tokens(width, height)
    if family == "qwen":
        return _qwen_image_tokens(width, height, model)
    side = 1568 if family == "anthropic" else max(width, height)
    scale = min(1.0, side / max(width, height))
    tokens = math.ceil(width * scale * height * scale / 750)
    # Anthropic scales down what would be over about 1,600 tokens.
    return min(tokens, 1600 if family == "anthropic" else _UNKNOWN_TOKENS)


# Tokens a patch of 32x32 pixels, at most 1,536 patches; all else by (base, a tile of 512 pixels).
_OPENAI_PATCH: Final = (
    ("4.1-nano", 2.46),
    ("4.1-mini", 1.62),
    ("gpt-5-mini", 1.62),
    ("gpt-5-nano", 2.46),
    ("o4-mini", 1.72),
)
_OPENAI_TILE: Final = (("4o-mini", 2833, 5667), ("o1", 75, 150), ("o3", 75, 150), ("gpt-5", 70, 140))
_OPENAI_MOST_PATCHES: Final = 1536


def _openai_image_tokens(width: int, height: int, model: str) -> int:
    """Return the tokens of an image in high detail, which is what "auto" mostly means."""
    for name, factor in _OPENAI_PATCH:
        if name in model:
            patches = math.ceil(width / 32) * math.ceil(height / 32)
            return math.ceil(min(patches, _OPENAI_MOST_PATCHES) * factor)
    base, tile = next(((base, tile) for name, base, tile in _OPENAI_TILE if name in model), (85, 170))
    fit = min(1.0, 2048 / max(width, height))
    fit *= min(1.0, 768 / (min(width, height) * fit))
    return base + tile * math.ceil(width * fit / 512) * math.ceil(height * fit / 512)


def _gemini_image_tokens(width: int, height: int) -> int:
    small, tile, most, tokens = 384, 768, 3072, 258
    if width <= small and height <= small:
        return tokens
    # Vertex AI's guide: larger ones are scaled down to 3072 pixels a side.
    return tokens * math.ceil(min(width, most) / tile) * math.ceil(min(height, most) / tile)


def _qwen_image_tokens(width: int, height: int, model: str) -> int:
    """Return the tokens by the Model Studio guide ("Visual understanding"), at its default resolution limit."""
    side, most = (32, 2560) if re.search(r"qwen-?3", model) else (28, 1280)
    return max(4, min(most, round(width / side) * round(height / side))) + 2


def _audio_seconds(data: str, size: float) -> float:
    """Return the length of a recording: from a WAV's header, else from its size."""
    head = decode_head(data, 48)
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE" and head[12:16] == b"fmt ":
        byte_rate = int.from_bytes(head[28:32], "little")
        if byte_rate > 0:
            return size / byte_rate
    return size / _AUDIO_BYTES_PER_S


def _pdf_pages(data: str, size: float) -> int:
    """Return the pages of a PDF: from the header of a linearised one, else one per 100 kB, at most 100."""
    found = re.search(rb"/Linearized.{0,200}?/N\s+(\d{1,6})", decode_head(data, 2048), re.DOTALL)
    pages = int(found[1]) if found else math.ceil(size / _PAGE_BYTES)
    return max(1, min(pages, _MOST_PAGES))
