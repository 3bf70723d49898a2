"""Media cost what the provider's rule says, read from the first bytes."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.tokens import media_tokens
from tests.unit.tokens.samples import png


def jpeg(width: int, height: int, *, profile_bytes: int = 0) -> str:
    segments = b"\xff\xd8"
    while profile_bytes > 0:
        size = min(profile_bytes, 60_000)
        segments += b"\xff\xe2" + struct.pack(">H", size + 2) + bytes(size)
        profile_bytes -= size
    segments += b"\xff\xdb" + struct.pack(">H", 67) + bytes(65)
    segments += b"\xff\xc0" + struct.pack(">HBHH", 17, 8, height, width) + bytes(10)
    return base64.b64encode(segments + bytes(100)).decode()


def gif(width: int, height: int) -> str:
    return base64.b64encode(b"GIF89a" + struct.pack("<HH", width, height) + bytes(20)).decode()


def webp(kind: bytes, width: int, height: int) -> str:
    if kind == b"VP8X":
        body = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        body = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
    else:
        body = bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return base64.b64encode(b"RIFF" + bytes(4) + b"WEBP" + kind + bytes(4) + body + bytes(20)).decode()


@pytest.mark.parametrize(
    ("model_key", "size", "tokens"),
    [
        ("OpenAIChatModel:gpt-4o", (1024, 1024), 765),
        ("OpenAIChatModel:gpt-4o", (2048, 4096), 1105),
        ("OpenAIChatModel:gpt-4o", (128, 64), 255),
        ("OpenAIChatModel:gpt-4o-mini", (512, 512), 2833 + 5667),
        ("OpenAIResponseModel:gpt-5", (1024, 1024), 70 + 4 * 140),
        ("OpenAIChatModel:gpt-4.1-mini", (1024, 1024), 1659),
        ("OpenAIChatModel:gpt-4.1-mini", (4000, 3000), 2489),
        ("AnthropicChatModel:claude-sonnet-5", (1000, 1000), 1334),
        ("AnthropicChatModel:claude-sonnet-5", (4000, 4000), 1600),
        ("GeminiChatModel:gemini-2.5-pro", (384, 384), 258),
        ("GeminiChatModel:gemini-2.5-pro", (960, 540), 516),
        ("DashScopeChatModel:qwen2.5-vl-72b", (280, 280), 102),
        ("DashScopeChatModel:qwen3-vl-plus", (320, 320), 102),
        ("OllamaChatModel:llava", (1000, 750), 1000),
    ],
)
def test_an_image_costs_what_the_providers_guide_says(model_key: str, size: tuple[int, int], tokens: int) -> None:
    assert media_tokens("image/png", png(*size), model_key=model_key) == tokens


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", png(750, 1000, extra_bytes=1_000_000)),
        ("image/gif", gif(750, 1000)),
        ("image/webp", webp(b"VP8X", 750, 1000)),
        ("image/webp", webp(b"VP8L", 750, 1000)),
        ("image/webp", webp(b"VP8 ", 750, 1000)),
        ("image/jpeg", jpeg(750, 1000)),
        ("image/jpeg", jpeg(750, 1000, profile_bytes=130_000)),
    ],
)
def test_the_size_is_read_from_every_common_format(media_type: str, data: str) -> None:
    assert media_tokens(media_type, data, model_key="AnthropicChatModel:claude-opus-5") == 1000


def test_the_models_name_wins_over_the_class_that_calls_it() -> None:
    data = png(1000, 1000)

    by_name = media_tokens("image/png", data, model_key="OpenAIChatModel:qwen2.5-vl")

    assert by_name == media_tokens("image/png", data, model_key="DashScopeChatModel:qwen2.5-vl")
    assert by_name != media_tokens("image/png", data, model_key="OpenAIChatModel:gpt-4o")


@pytest.mark.parametrize("data", [None, "", "not base64 !", png(0, 0), base64.b64encode(b"BM" + bytes(50)).decode()])
def test_an_image_whose_size_cannot_be_read_counts_as_one_of_1024_pixels(data: str | None) -> None:
    tokens = media_tokens("image/png", data, model_key="AnthropicChatModel:claude-opus-5")

    assert tokens == media_tokens("image/png", png(1024, 1024), model_key="AnthropicChatModel:claude-opus-5")


def test_a_wav_is_measured_by_its_header() -> None:
    header = b"RIFF" + bytes(4) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16) + b"data"
    data = base64.b64encode(header + bytes(320_000)).decode()

    assert media_tokens("audio/wav", data, model_key="GeminiChatModel:gemini-3") == pytest.approx(320, rel=0.01)


def test_a_linearised_pdf_says_its_pages() -> None:
    data = base64.b64encode(
        b"%PDF-1.7\n1 0 obj\n<< /Linearized 1 /L 90000 /N 12 /T 89000 >>\n" + bytes(90_000)
    ).decode()

    assert media_tokens("application/pdf", data, model_key="GeminiChatModel:gemini-3") == 12 * 258


def test_what_a_guess_claims_is_bounded() -> None:
    data = base64.b64encode(b"%PDF-1.7" + bytes(30_000_000)).decode()

    assert media_tokens("application/pdf", data, model_key="AnthropicChatModel:claude-opus-5") == 225_000
    assert media_tokens("image/png", png(2**31 - 1, 2**31 - 1), model_key="GeminiChatModel:gemini-3") == 16 * 258


@given(
    st.sampled_from(["image/png", "image/jpeg", "audio/wav", "video/mp4", "application/pdf", "text/plain", "x", ""]),
    st.one_of(st.none(), st.text(max_size=60), st.binary(max_size=200).map(lambda b: base64.b64encode(b).decode())),
    st.sampled_from(["", "OpenAIChatModel:gpt-5", "GeminiChatModel:g", "AnthropicChatModel:claude", "qwen3:8b"]),
    st.sampled_from([b"", b"\xff\xd8\xff", b"RIFF0000WEBPVP8 ", b"\x89PNG\r\n\x1a\n", b"GIF89a"]),
)
def test_no_data_makes_it_raise(media_type: str, data: str | None, model_key: str, magic: bytes) -> None:
    whole = base64.b64encode(magic).decode() + data if data is not None else None

    assert media_tokens(media_type, whole, model_key=model_key) >= 1
