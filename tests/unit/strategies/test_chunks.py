"""The oldest chunk of the messages leaves, once and again, until few enough tokens are left (row O7)."""

import pytest

from ctxkit import ConfigError, LadderConfig
from ctxkit.strategies.compress import newest_chunks
from tests.unit.fakes import agent, situation, step, user


def weighed(*messages, each):
    here = situation(*messages)
    return type(here)(**{**vars(here), "tokens": [[each] * len(content) for content in here.view.contents]})


def turns(number):
    return [message for n in range(number) for message in (user(f"ask {n}"), agent(f"answer {n}"))]


@pytest.mark.parametrize(
    ("chunks", "most", "left"),
    [(2, 1e9, 50), (2, 60, 50), (2, 40, 25), (2, 10, 6), (4, 80, 75), (4, 60, 56), (2, 0, 1)],
)
def test_at_least_one_chunk_leaves_and_no_more_than_must(chunks, most, left):
    here = weighed(*turns(50), each=1)

    assert newest_chunks(here, chunks, most_tokens=most) == left


def test_a_chunk_ends_where_no_call_is_parted_from_its_result():
    here = weighed(user("a"), agent(*step("x"), *step("y"), *step("z")), user("now"), each=10)
    # The first question, three steps of three blocks, and the newest question.
    assert [len(content) for content in here.view.contents] == [1, 9, 1]

    left = {newest_chunks(here, 2, most_tokens=most) for most in range(0, 110, 5)}

    assert left <= {10, 40, 70, 100, 110}
    assert len(left) > 1


def test_where_nothing_may_be_cut_all_of_it_is_left():
    here = weighed(user("now"), each=10)

    assert newest_chunks(here, 2, most_tokens=1) == 10


@pytest.mark.parametrize("chunks", [1, 17, 2.5, True])
def test_a_number_of_chunks_that_cannot_work_is_refused(chunks):
    with pytest.raises(ConfigError, match=r"LadderConfig\.chunks is"):
        LadderConfig(chunks=chunks)
