"""The scripted model in the host's real agent and in its real ladder for structured output."""

import asyncio
import inspect
import json

import openai
import pytest
from agentscope.agent import Agent
from agentscope.message import SystemMsg, TextBlock, ThinkingBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatResponse
from agentscope.tool import FunctionTool, Toolkit

from ctxkit.overflow import recognise
from ctxkit.schema import SUMMARY_FIELDS, summary_json_schema
from ctxkit.summary.prompt import answer_text, fenced, repair_text
from ctxkit.testing import BreakOff, ScriptedModel, call, plain_summary
from ctxkit.testing.tokenizers import MESSAGE_TOKENS, NAME_TOKENS, PRIMING_TOKENS, tokenizer

pytestmark = pytest.mark.asyncio

CL100K = tokenizer("cl100k")
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


def said(text: str) -> list:
    return [UserMsg(name="user", content=[TextBlock(text=text)])]


async def ask(model: ScriptedModel, messages=None, **kwargs) -> ChatResponse:
    answer = await model(messages or said("hello"), **kwargs)
    if inspect.isasyncgen(answer):
        return [response async for response in answer][-1]
    return answer


def lookup(word: str) -> str:
    """Look a word up.

    Args:
        word (str): The word.
    """
    return f"{word} is a word. " * 200


def an_agent(model: ScriptedModel) -> Agent:
    return Agent(
        name="scribe",
        system_prompt="Be brief.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(lookup, is_read_only=True)]),
    )


@STREAMS
async def test_an_agent_works_through_a_script_of_calls_and_texts(stream):
    model = ScriptedModel(
        [call("lookup", word="a"), [TextBlock(text="one more"), call("lookup", word="b")], "Both found."], stream=stream
    )

    agent = an_agent(model)

    reply = await agent.reply(said("look up a and b")[0])

    assert reply.get_text_content().endswith("Both found.")
    assert [request.kind for request in model.requests] == ["chat"] * 3
    blocks = [block.type for block in agent.state.context[-1].content if block.type != "hint"]
    assert blocks == ["tool_call", "tool_result", "text", "tool_call", "tool_result", "text"]


@STREAMS
async def test_blocks_arrive_as_they_were_written(stream):
    arguments = {"word": "a " * 100, "n": 3}
    written = [ThinkingBlock(thinking="hm " * 40), TextBlock(text="東京 " * 40), call("lookup", **arguments)]

    response = await ask(ScriptedModel([written], stream=stream))

    assert [block.type for block in response.content] == ["thinking", "text", "tool_call"]
    assert response.content[0].thinking == "hm " * 40
    assert response.content[1].text == "東京 " * 40
    assert json.loads(response.content[2].input) == arguments


async def test_a_stream_comes_in_pieces_that_say_they_are_not_the_last():
    answer = await ScriptedModel(["x" * 500], stream=True)(said("hello"))

    responses = [response async for response in answer]

    assert len(responses) > 5
    assert [response.is_last for response in responses] == [False] * (len(responses) - 1) + [True]


@STREAMS
async def test_usage_is_the_true_count_of_what_the_formatter_sends(stream):

    model = ScriptedModel(["Fine, thank you."], enforce="cl100k", stream=stream)

    response = await ask(
        model, [SystemMsg(name="system", content=[TextBlock(text="Be brief.")]), *said("How are you?")]
    )

    expected = (
        2 * (MESSAGE_TOKENS + NAME_TOKENS)
        + sum(map(CL100K, ["system", "system", "Be brief.", "user", "user", "How are you?"]))
        + PRIMING_TOKENS
    )
    assert (response.usage.input_tokens, response.usage.output_tokens) == (expected, CL100K("Fine, thank you."))
    assert model.requests[0].input_tokens == expected


async def test_a_prefix_that_was_sent_before_is_reported_as_cached():
    model = ScriptedModel(enforce="cl100k")
    first = said("a long beginning " * 100)

    await ask(model, first)
    longer = await ask(model, first + said("and more"))
    other = await ask(model, said("something else"))

    assert longer.usage.cache_input_tokens == model.requests[0].input_tokens - PRIMING_TOKENS
    assert other.usage.cache_input_tokens == 0


@STREAMS
async def test_a_request_over_the_limit_gets_the_providers_own_error_and_does_not_use_up_the_script(stream):
    model = ScriptedModel(["short"], enforce="cl100k", context_size=50, stream=stream)

    with pytest.raises(openai.BadRequestError) as caught:
        await ask(model, said("word " * 100))
    found = recognise(caught.value)

    assert found is not None
    assert (found.limit_tokens, found.needed_tokens) == (50, model.requests[0].input_tokens)
    assert model.requests[0].refused
    assert (await ask(model)).content[0].text == "short"


async def test_a_limit_may_be_smaller_than_the_window_that_the_host_knows():
    model = ScriptedModel(enforce="o200k", context_size=100_000, limit=20, provider="anthropic")

    with pytest.raises(Exception, match=r"prompt is too long: \d+ tokens > 20 maximum"):
        await ask(model, said("word " * 100))


async def test_without_enforcement_nothing_is_refused():
    assert (await ask(ScriptedModel(context_size=10), said("word " * 1000))).content[0].text == "done"


@STREAMS
async def test_an_exception_in_a_script_is_raised(stream):
    with pytest.raises(ConnectionError, match="gone"):
        await ask(ScriptedModel([ConnectionError("gone")], stream=stream))


async def test_a_stream_may_break_off_in_the_middle():
    answer = await ScriptedModel([BreakOff(content="a beginning " * 20, error=ConnectionError("cut"))], stream=True)(
        said("x")
    )
    pieces = []

    async def read() -> None:
        async for response in answer:
            pieces.append(response.content[0].text)  # noqa: PERF401 - what came before the error is the point

    with pytest.raises(ConnectionError, match="cut"):
        await read()

    assert "".join(pieces) == "a beginning " * 20


async def test_a_cancelled_call_is_answered_as_the_host_answers_it():
    def cancelled(messages):
        return asyncio.CancelledError()

    response = await ask(ScriptedModel([cancelled]))

    assert str(response.finished_reason) == "interrupted"


async def test_a_step_may_look_at_the_messages_and_wait():
    async def step(messages):
        await asyncio.sleep(0)
        return f"{len(messages)} message"

    model = ScriptedModel([step, lambda messages: call("lookup", word=messages[0].name)])

    assert (await ask(model)).content[0].text == "1 message"
    assert json.loads((await ask(model)).content[0].input) == {"word": "user"}


async def test_a_response_that_is_ready_made_is_passed_on():
    ready = ChatResponse(content=[TextBlock(text="as it is")], is_last=True)

    for stream in (False, True):
        assert await ask(ScriptedModel([ready], stream=stream)) is ready


@STREAMS
async def test_the_hosts_structured_output_is_answered_beside_the_script(stream):
    model = ScriptedModel(["chat"], stream=stream)

    response = await model.generate_structured_output(said("summarise"), summary_json_schema())

    assert response.content == plain_summary(number=1)
    assert set(response.content) == set(SUMMARY_FIELDS)
    assert [request.kind for request in model.requests] == ["summary"]
    assert (await ask(model)).content[0].text == "chat"


async def test_structured_output_of_another_schema_has_its_fields_and_types():
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "points": {"type": "array"}, "score": {"type": "integer"}},
        "required": ["title", "points", "score"],
    }

    response = await ScriptedModel().generate_structured_output(said("summarise"), schema)

    assert response.content == {"title": "Title as of summary 1.", "points": [], "score": 0}


@pytest.mark.parametrize(
    "request_text",
    [
        "Summarise. " + answer_text(summary_json_schema(), max_tokens=2000),
        repair_text("no JSON in it", summary_json_schema()),
        answer_text(summary_json_schema(), max_tokens=2000) + "\n\n" + fenced('{"other": "fields"}', "f00d"),
    ],
    ids=["asked", "asked again", "merged"],
)
async def test_ctxkits_own_summary_request_is_answered_with_json_beside_the_script(request_text):
    model = ScriptedModel(["chat"])

    response = await ask(
        model, said(request_text), tools=[{"type": "function", "function": {"name": "lookup", "parameters": {}}}]
    )

    assert json.loads(response.content[0].text) == plain_summary(number=1)
    assert (model.requests[0].kind, model.chats) == ("summary", [])


async def test_ctxkits_own_request_for_another_schema_is_answered_by_it():
    schema = {"type": "object", "properties": {"gist": {"type": "string"}}}

    response = await ask(ScriptedModel(), said(answer_text(schema, max_tokens=100)))

    assert json.loads(response.content[0].text) == {"gist": "Gist as of summary 1."}


async def test_summaries_may_fail_and_be_malformed():
    answers = iter([TimeoutError("slow"), "no json", {"task_overview": "only this"}])
    model = ScriptedModel(summaries=lambda messages: next(answers), summary_marks=["SUM UP"])

    with pytest.raises(TimeoutError, match="slow"):
        await ask(model, said("SUM UP"))

    assert (await ask(model, said("SUM UP"))).content[0].text == "no json"
    assert json.loads((await ask(model, said("SUM UP"))).content[0].text) == {"task_overview": "only this"}
    assert len(model.summary_requests) == 3


async def test_the_hosts_ladder_runs_on_bad_structured_output():
    model = ScriptedModel(summaries="{}")

    with pytest.raises(Exception, match="required property"):
        await model.generate_structured_output(said("summarise"), summary_json_schema())

    # Hosts before 2.0.8 have no ladder.
    assert [request.tool_choice for request in model.requests] in (
        ["generate_structured_output", "auto", None],
        ["generate_structured_output"],
    )


async def test_recorded_messages_do_not_change_with_the_context():
    messages = said("before")
    model = ScriptedModel()
    await ask(model, messages)

    messages[0].content[0].text = "after"

    assert model.requests[0].messages[0].get_text_content() == "before"


async def test_messages_need_not_be_kept():
    model = ScriptedModel(keep_messages=False)
    await ask(model, said("hello"))

    assert (model.requests[0].messages, model.requests[0].message_count) == ((), 1)


async def test_calls_have_ids_of_their_own():
    assert len({call("lookup", word="a").id for _ in range(100)}) == 100
    assert isinstance(call("f", name="x"), ToolCallBlock)
