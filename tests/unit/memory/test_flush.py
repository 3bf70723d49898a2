"""Writing down what left: one call, two sections, and code where no model answers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.memory import CallableModel
from ctxkit.memory.prompt import parse_sections
from ctxkit.offload.redact import SecretRedactor
from ctxkit.summary.extractive import MARK
from tests.unit.fakes import agent, call, result, user
from tests.unit.memory.fakes import GOOD, leaving, writer
from tests.unit.summary.fakes import FakeModel

MESSAGES = leaving().messages


@pytest.mark.asyncio
async def test_one_call_gives_both_the_entry_and_the_text_to_be_injected():
    made = writer(GOOD)
    written = await made.write(MESSAGES)
    assert written.daily == "- The parser was fixed.\n- Use tabs."
    assert written.memory == "The parser works; look at line 40 next."
    assert (written.is_extractive, len(made.model.sent)) == (False, 1)
    assert "Fix the parser." in made.model.sent[0].text
    assert "def parse()" in made.model.sent[0].text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "answer", [OSError("down"), "", "   ", "I cannot do that.", "[DAILY]\n\n[MEMORY]\n", "hang-up"]
)
async def test_a_model_that_fails_or_says_nothing_gives_an_entry_that_says_that_code_made_it(answer):
    written = await writer(answer, answer).write(MESSAGES)
    assert written.is_extractive
    assert MARK in written.daily
    assert MARK in written.memory
    assert "Fix the parser." in written.daily
    assert "It is fixed." in written.daily
    assert written.failures


@pytest.mark.asyncio
async def test_without_a_model_code_writes():
    written = await writer().write(MESSAGES)
    assert (written.is_extractive, written.failures, written.usage) == (True, (), None)
    assert "Fix the parser." in written.memory


@pytest.mark.asyncio
async def test_an_answer_without_sections_is_asked_for_again_once():
    made = writer("The parser was fixed.", GOOD)
    written = await made.write(MESSAGES)
    assert not written.is_extractive
    assert len(made.model.sent) == 2
    assert "neither a [DAILY] nor a [MEMORY]" in made.model.sent[1].text


@pytest.mark.asyncio
async def test_what_is_larger_than_the_window_is_written_down_in_stages_and_merged():
    long = [user("Read all."), *(agent(call(f"c{n}"), result(f"c{n}", f"part {n} " * 300)) for n in range(12))]
    model = FakeModel(plain=[lambda sent: GOOD], context_size=4000)
    written = await writer(model=model).write(long)
    assert not written.is_extractive
    assert written.daily == "- The parser was fixed.\n- Use tabs."
    sent = "\n".join(each.text for each in model.sent)
    assert len(model.sent) > 3
    assert all(f"part {n} " in sent for n in range(12))
    assert "Merge these partial summaries" in model.sent[-1].text


@pytest.mark.asyncio
async def test_secrets_are_kept_from_the_model_and_from_the_entry():
    token = "ghp_" + "a1B2" * 9
    made = writer(f"[DAILY]\n- The token is {token}.\n[MEMORY]\nUse {token}.", redactor=SecretRedactor())
    written = await made.write([user(f"My token is {token}.")])
    assert token not in made.model.sent[0].text + written.daily + written.memory
    assert "REDACTED" in written.daily


@pytest.mark.asyncio
async def test_a_cancellation_leaves_at_once_and_stops_the_call():
    model = FakeModel(plain=["hang"])
    task = asyncio.create_task(writer(model=model).write(MESSAGES))
    await model.hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.stopped == 1


@pytest.mark.parametrize(
    ("text", "daily", "memory"),
    [
        (GOOD, "- The parser was fixed.\n- Use tabs.", "The parser works; look at line 40 next."),
        ("## [daily]\n- a\n## **[MEMORY]**: b", "- a", "b"),
        ("[MEMORY]\nb\n[DAILY]\n- a", "- a", "b"),
        ("Here it is:\n[DAILY]\n- a", "- a", "- a"),
        ("[MEMORY] b", "b", "b"),
        ('{"daily": "- a", "memory": "b"}', "- a", "b"),
    ],
)
def test_sections_are_read_in_any_order_and_dress(text, daily, memory):
    assert parse_sections(text) == {"daily": daily, "memory": memory}


@given(st.text())
def test_any_answer_gives_fields_or_a_reason(text):
    found = parse_sections(text)
    assert isinstance(found, str) or found


async def _chunks(*pieces):
    for piece in pieces:
        yield piece


def _generator(*pieces):
    yield from pieces


class Thing:
    """An SDK's object, by attributes."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


CLAUDE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": GOOD}],
}
OPENAI = {"choices": [{"message": {"role": "assistant", "content": GOOD}}, {"message": {"content": "another"}}]}
HALF = len(GOOD) // 2
SHAPES = {
    "text": lambda _: GOOD,
    "bytes": lambda _: GOOD.encode(),
    "claude": lambda _: CLAUDE,
    "openai": lambda _: OPENAI,
    "openai parts": lambda _: {"choices": [{"message": {"content": [{"type": "text", "text": GOOD}]}}]},
    "object": lambda _: Thing(choices=[Thing(message=Thing(content=GOOD))]),
    "generator": lambda _: _generator(GOOD[:HALF], GOOD[HALF:]),
    "generator of claude events": lambda _: _generator(
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": GOOD[:HALF]}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": GOOD[HALF:]}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ),
    "async generator of openai chunks": lambda _: _chunks(
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": GOOD[:HALF]}}]},
        {"choices": [{"delta": {"content": GOOD[HALF:]}}]},
        {"choices": []},
    ),
    "generator of one dict": lambda _: _generator(CLAUDE),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_awaitable", [False, True])
async def test_a_function_may_answer_in_any_shape(shape, is_awaitable):
    asked = []

    def plain(prompt):
        asked.append(prompt)
        return SHAPES[shape](prompt)

    async def awaited(prompt):
        return plain(prompt)

    model = CallableModel(awaited if is_awaitable else plain, context_size=100_000)
    written = await writer(model=model).write(MESSAGES)
    assert not written.is_extractive, written.failures
    assert written.memory == "The parser works; look at line 40 next."
    assert "Fix the parser." in asked[0]


@pytest.mark.asyncio
async def test_a_response_that_is_an_error_is_no_entry():
    model = CallableModel(lambda _: {"error": {"message": "rate limit"}}, context_size=100_000)
    written = await writer(model=model).write(MESSAGES)
    assert written.is_extractive
    assert "rate limit" in " ".join(written.failures)
