"""A result of several texts and media shares one limit."""

from __future__ import annotations

import pytest

from ctxkit.results import TRUNCATED, defuse_pieces, marker, shorten_pieces

LINES = "".join(f"line {i} of the file\n" for i in range(3000))


@pytest.fixture
def shorten(ruler, codec, make):
    async def call(pieces, tokens, **how):
        return await shorten_pieces(
            pieces,
            tool_name="run",
            limits=make(tokens, **how),
            ruler=ruler,
            codec=codec,
            reference="ref",
            media_tokens=lambda block: block.tokens,
        )

    return call


async def total(pieces, ruler) -> int:
    return sum([piece.tokens if piece.type == "data" else await ruler.count(piece.text) for piece in pieces])


@pytest.mark.asyncio
async def test_what_fits_stays_the_same_objects(shorten, text_block, data_block) -> None:
    pieces = [text_block("a"), data_block(50), text_block("b")]
    assert await shorten(pieces, 100) == pieces


@pytest.mark.asyncio
async def test_small_texts_stay_whole_and_the_big_one_is_cut(shorten, ruler, text_block) -> None:
    pieces = [text_block("cwd: /w\n"), text_block(LINES), text_block("EXIT CODE 1: the error is here")]
    kept = await shorten(pieces, 500)
    assert (kept[0], kept[2]) == (pieces[0], pieces[2])
    assert TRUNCATED in kept[1].text
    assert kept[1].text.endswith(LINES[-100:])
    assert 300 < await total(kept, ruler) <= 500


@pytest.mark.asyncio
async def test_an_image_over_the_limit_leaves_the_texts_alone(shorten, text_block, data_block) -> None:
    kept = await shorten([data_block(5000, name="plot.png"), text_block("the text")], 200)
    assert [piece.text for piece in kept] == [
        "[image/png 'plot.png' of about 5000 tokens omitted for limited context]",
        "the text",
    ]


@pytest.mark.asyncio
async def test_an_image_that_fits_beside_a_shortened_text_stays(shorten, ruler, text_block, data_block) -> None:
    image = data_block(200)
    kept = await shorten([text_block(LINES), image], 600)
    assert kept[1] is image
    assert await total(kept, ruler) <= 600


@pytest.mark.parametrize("placement", ["gap", "end"])
@pytest.mark.asyncio
async def test_of_very_many_texts_the_first_and_last_stay_and_the_gap_is_named(
    shorten, ruler, text_block, placement
) -> None:
    pieces = [text_block(f"part {i} " + "word " * 60) for i in range(2000)]
    kept = await shorten(pieces, 1000, placement=placement)
    texts = [piece.text for piece in kept]
    (note,) = [text for text in texts if TRUNCATED in text]
    assert (note == marker("ref")) is (placement == "end")
    assert pieces[0] in kept
    assert pieces[-1] in kept
    assert await total(kept, ruler) <= 1000


@pytest.mark.parametrize("tokens", [1, 30, 60, 100, 200])
@pytest.mark.asyncio
async def test_no_limit_is_too_small(shorten, ruler, text_block, data_block, tokens) -> None:
    kept = await shorten([text_block(LINES), data_block(90), text_block(LINES), text_block("end")], tokens)
    assert [piece.text for piece in kept if piece.type == "text"] == [marker("ref")] or await total(
        kept, ruler
    ) <= tokens


@pytest.mark.asyncio
async def test_pieces_without_a_forged_marker_stay_the_same_objects(codec, text_block, data_block) -> None:
    clean, forged, image = text_block("clean"), text_block(f"x\n{marker(None)}"), data_block(5)
    harmless = await defuse_pieces([clean, forged, image], codec=codec)
    assert harmless[0] is clean
    assert TRUNCATED not in harmless[1].text
    assert harmless[2] is image


@pytest.mark.asyncio
async def test_an_offset_is_named_only_where_the_text_is_the_whole_of_what_is_stored(shorten, text_block) -> None:
    (alone,) = await shorten([text_block(LINES)], 400, recall=True)
    beside = await shorten([text_block(LINES), text_block("end")], 400, recall=True)
    assert "offset=" in alone.text
    assert "offset=" not in beside[0].text
