"""The five-field summary: asked warm, validated, repaired once, refused where it says nothing."""

import json

import pytest
from pydantic import BaseModel

from ctxkit import ContextConfig, SummaryConfig, SummaryError, SummaryGenerator, SummarySchema
from ctxkit.schema import SUMMARY_FIELDS
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    summary_text,
    text_of,
    user,
    words,
)
from tests.host.summaries import GOOD, QUICK, WINDOW, an_agent, answers, last_asked, lowered

pytestmark = pytest.mark.asyncio

# Five fields, own schema, prompt and template (row A4)


@pytest.mark.row("A4")
async def test_the_five_fields_stand_in_the_hosts_template():
    agent, model = an_agent(GOOD)

    await agent.compress_context()

    assert ContextConfig().summary_template.format(**GOOD) in summary_text(agent)
    assert applied(agent)[0].summary == "warm"
    assert len(model.summary_requests) == 1


@pytest.mark.row("A4")
async def test_the_schema_has_the_hosts_five_fields():
    assert list(SummarySchema.model_fields) == list(SUMMARY_FIELDS) == list(GOOD)
    assert set(SummarySchema.model_json_schema()["required"]) == set(GOOD)


@pytest.mark.row("A4")
@pytest.mark.parametrize("warm", [True, False])
async def test_an_own_schema_prompt_and_template_are_taken(warm):
    class Minutes(BaseModel):
        decisions: str
        open_points: list[str]
        urgency: int

    config = lowered(
        summary=SummaryConfig(warm=warm, **QUICK),
        summary_schema=Minutes.model_json_schema(),
        compression_prompt="Write the minutes of {current_time}, braces {stay}.",
        summary_template="Decided: {decisions}. Open: {open_points}. Urgency {urgency}.",
    )
    agent, model = an_agent({"decisions": "Blue", "open_points": ["size"], "urgency": 3}, config=config)

    await agent.compress_context()

    assert "Decided: Blue. Open: ['size']. Urgency 3." in summary_text(agent)
    assert applied(agent)[0].summary == ("warm" if warm else "structured")
    assert "braces {stay}" in last_asked(model)
    assert "{current_time}" not in last_asked(model)


@pytest.mark.row("A4")
async def test_the_generator_works_without_the_middleware():
    model = ScriptedModel(context_size=WINDOW, summaries=GOOD, enforce="cl100k")
    generator = SummaryGenerator(model)

    fields = await generator.generate(history(5), instructions="mind the numbers")

    assert fields == GOOD
    assert generator.render(fields) == ContextConfig().summary_template.format(**GOOD)
    assert "mind the numbers" in last_asked(model)


@pytest.mark.row("A4", "X4")
async def test_the_generator_summarises_what_no_single_call_can_take():
    model = ScriptedModel(context_size=4096, summaries=GOOD, enforce="cl100k")

    fields = await SummaryGenerator(model).generate(history(30))

    assert fields == GOOD
    assert not any(request.refused for request in model.requests)
    seen = text_of(message for request in model.summary_requests for message in request.messages)
    assert [i for i in range(30) if number_of(f"old-{i}") not in seen] == []


@pytest.mark.row("A4")
async def test_the_generator_raises_where_no_valid_summary_comes():
    model = ScriptedModel(context_size=WINDOW, summaries="no idea")

    with pytest.raises(SummaryError, match="gave no valid summary"):
        await SummaryGenerator(model, lowered()).generate(history(3))


# Answers that are no summary (row A4)


@pytest.mark.row("A4")
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(
            {**{k: v for k, v in GOOD.items() if k != "task_overview"}, "task_over": "x"}, id="misspelled key"
        ),
        pytest.param({**GOOD, "next_steps": ["a", "b"]}, id="list for a string"),
        pytest.param("I have summarised everything for you.", id="prose"),
        pytest.param("", id="empty"),
        pytest.param(dict.fromkeys(GOOD, ""), id="five empty strings"),
        pytest.param(dict.fromkeys(GOOD, "N/A"), id="five placeholders"),
        pytest.param({**GOOD, "current_state": words(6000)}, id="huge"),
    ],
)
async def test_an_answer_that_is_no_summary_is_asked_for_once_more_with_the_error(wrong):
    agent, model = an_agent(answers(wrong, GOOD))

    await agent.compress_context()

    assert len(model.summary_requests) == 2
    assert "Your answer cannot be used: " in last_asked(model)
    assert ContextConfig().summary_template.format(**GOOD) in summary_text(agent)


@pytest.mark.row("A4")
async def test_the_error_that_is_shown_names_what_is_wrong():
    agent, model = an_agent(answers({k: v for k, v in GOOD.items() if k != "next_steps"}, GOOD))

    await agent.compress_context()

    assert "'next_steps' is a required property" in last_asked(model)


@pytest.mark.row("A4")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"Here it is:\n```json\n{json.dumps(GOOD)}\n```\nGood luck!", id="in a fence"),
        pytest.param(json.dumps({"summary": GOOD}), id="in a wrapper"),
        pytest.param(json.dumps(GOOD)[:-1], id="without its last brace"),
    ],
)
async def test_an_answer_in_plain_text_is_read(text):
    agent, model = an_agent(text)

    await agent.compress_context()

    assert len(model.summary_requests) == 1
    assert ContextConfig().summary_template.format(**GOOD) in summary_text(agent)


@pytest.mark.row("A4")
@pytest.mark.parametrize("empty", [dict.fromkeys(GOOD, ""), {**GOOD, "current_state": words(6000)}], ids=["empty", "huge"])  # fmt: skip
async def test_a_summary_that_stays_unusable_is_never_taken(empty):
    agent, _ = an_agent(lambda messages: empty)

    await agent.compress_context()

    [receipt] = applied(agent)
    assert receipt.summary == "extractive"
    assert receipt.problems
    assert receipt.tokens_after < receipt.tokens_before
    assert words(300) not in summary_text(agent)


@pytest.mark.row("A4")
async def test_a_tool_call_in_the_answer_is_never_run():
    ran = []

    def launch(what: str) -> str:
        """Launch.

        Args:
            what (str): What.
        """
        ran.append(what)
        return "launched"

    class Eager(ScriptedModel):
        async def _summarise(self, messages, tools):
            if not ran and len(self.summary_requests) == 1:
                return call("launch", what="rockets")
            return await super()._summarise(messages, tools)

    model = Eager(["done"], context_size=WINDOW, summaries=GOOD)
    agent = make_agent(model, config=lowered(), offloader=memory_offloader(), tools=[launch])
    agent.state.context.extend(history(25))

    await agent.reply(user("Go on."))

    assert ran == []
    assert [request.tool_choice for request in model.summary_requests] == [None, "none"]
    assert ContextConfig().summary_template.format(**GOOD) in summary_text(agent)
    assert "rockets" not in text_of(agent.state.context)


@pytest.mark.row("A4")
async def test_without_a_usable_warm_answer_the_hosts_structured_output_is_asked():
    class Chatty(ScriptedModel):
        async def _summarise(self, messages, tools):
            names = [tool["function"]["name"] for tool in tools]
            if "generate_structured_output" in names:
                return await super()._summarise(messages, tools)
            return "Let me tell you a story instead."

    model = Chatty(["done"], context_size=WINDOW, summaries=GOOD)
    agent = make_agent(model, config=lowered(), offloader=memory_offloader())
    agent.state.context.extend(history(25))

    await agent.compress_context()

    assert applied(agent)[0].summary == "structured"
    assert ContextConfig().summary_template.format(**GOOD) in summary_text(agent)


@pytest.mark.row("A4")
async def test_a_warm_request_begins_with_the_last_request_sent():
    model = ScriptedModel([*fetches(40), "done"], context_size=WINDOW, enforce="cl100k")
    agent = make_agent(model, config=lowered(), offloader=memory_offloader())

    await agent.reply(user("Look up forty topics."))

    [first, *_] = model.summary_requests
    before = model.requests[model.requests.index(first) - 1]
    assert len(first.messages) > len(before.messages)
    for sent, again in zip(before.messages[:-1], first.messages, strict=False):
        assert (sent.role, text_of([sent])) == (again.role, text_of([again]))
    assert text_of(first.messages).startswith(text_of(before.messages))
    assert first.tools == before.tools
    assert first.tool_choice == before.tool_choice
