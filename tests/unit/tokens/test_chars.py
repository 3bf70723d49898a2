"""Characters of messages, without reading them."""

from ctxkit.tokens import block_chars, message_chars
from tests.unit.fakes import agent, call, hint, image, result, text, thinking, user


def test_texts_thinking_hints_arguments_and_results_count_and_pictures_do_not():
    made = call("c", topic="x")
    blocks = [text("abc"), thinking("defg"), hint("hi"), made, result("c", "hijkl"), image()]

    assert [block_chars(block) for block in blocks] == [3, 4, 2, len(made.input), 5, 0]


def test_a_result_of_several_pieces_counts_all_its_texts():
    assert block_chars(result("c", [text("abc"), image(), text("de")])) == 5


def test_messages_count_what_their_blocks_do():
    assert message_chars([user("abc"), agent("de", thinking("f"))]) == 6
    assert message_chars([]) == 0
