"""Only the newest images stay."""

from __future__ import annotations

import pytest

from ctxkit.strategies import ImageStrategy
from ctxkit.strategies.images import images_of
from tests.unit.fakes import FakeHint, FakeMsg, FakeSource, agent, call, image, result, settings, situation, text, user


def planned(*messages: FakeMsg, limit: int) -> list[tuple[int, int, int]]:
    here = situation(*messages, config=settings(max_image_num=limit))
    return [(edit.message, edit.start, edit.images) for edit in ImageStrategy().plan_edits(here)]


MESSAGES = (
    user("look", image(), image()),
    agent(call("a"), result("a", [image(), text("and"), image(), image()]), FakeHint(hint=[image()])),
)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (6, []),
        (5, [(0, 1, 1)]),
        (3, [(0, 1, 1), (0, 2, 1), (1, 1, 1)]),
        (1, [(0, 1, 1), (0, 2, 1), (1, 1, 3)]),
        (0, [(0, 1, 1), (0, 2, 1), (1, 1, 3), (1, 2, 1)]),
    ],
)
def test_the_oldest_images_over_the_limit_go(limit: int, expected: list[tuple[int, int, int]]):
    assert planned(*MESSAGES, limit=limit) == expected


def test_a_file_that_is_no_image_is_left_alone():
    pdf = image()
    pdf.source = FakeSource(media_type="application/pdf")
    assert planned(user(pdf), limit=0) == []
    assert list(images_of(pdf)) == []
