"""The facts survive: where no model can summarise, where no call can take it all, and from one compression to the next."""

import asyncio
import copy
import itertools

import pytest
from agentscope.message import TextBlock, ToolResultBlock
from agentscope.model import ChatResponse, FinishedReason

from ctxkit import ContextConfig, SummaryConfig, SummaryError
from ctxkit.testing import ScriptedModel, call, overflow_error
from tests.host.agents import (
    applied,
    events_of,
    fetches,
    history,
    make_agent,
    memory_offloader,
    number_of,
    orphans,
    summary_text,
    text_of,
    told,
    user,
    words,
)
from tests.host.summaries import GOOD, QUICK, WINDOW, an_agent, lowered

pytestmark = pytest.mark.asyncio

# No model helps (rows X4 and X9)

FAILURES = {
    "server error": RuntimeError("server error"),
    "refused for its size": overflow_error("openai", limit_tokens=20_000, needed_tokens=21_000),
    "prose": "no idea",
    "empty": dict.fromkeys(GOOD, " "),
    "interrupted": ChatResponse(content=[], is_last=True, finished_reason=FinishedReason.INTERRUPTED),
}


class Failing(ScriptedModel):
    """A model whose summary calls fail, each in the same way."""

    failure: object = None

    async def _summarise(self, messages, tools):
        if isinstance(self.failure, ChatResponse | BaseException):
            return self.failure
        return await super()._summarise(messages, tools)


def a_failing_model(failure, *script, **settings):
    summaries = None if isinstance(failure, ChatResponse | BaseException) else failure
    model = Failing([*script, "done"], summaries=summaries, **{"context_size": WINDOW, **settings})
    object.__setattr__(model, "failure", failure)
    return model


def worked(agent) -> None:
    """Give an agent a history with a request, files, commands, an error and identifiers."""
    agent.state.context.extend(history(25))
    blocks = agent.state.context[1].content
    pairs = [
        ("Read", {"file_path": "/srv/app/settings.py"}, "DEBUG = True\nrequest id 7c9e6679-7425-40de-944b"),
        ("Bash", {"command": "pytest tests/api -x"}, "E   AssertionError: expected 200, got 503 from billing-gw"),
    ]
    for name, arguments, output in pairs:
        made = call(name, **arguments)
        made.state = "finished"
        blocks[0:0] = [made, ToolResultBlock(id=made.id, name=name, output=[TextBlock(text=output)])]
    agent.state.context[0] = user("Fix the billing test. Never touch the file schema.sql!")


@pytest.mark.row("X4", "X9")
@pytest.mark.parametrize("failure", FAILURES.values(), ids=list(FAILURES))
async def test_whatever_happens_to_the_summary_call_the_facts_survive(failure):
    agent = make_agent(a_failing_model(failure), config=lowered(), offloader=memory_offloader())
    worked(agent)

    await agent.reply(user("And now?"))

    [receipt] = applied(agent)
    assert receipt.summary == "extractive"
    assert receipt.problems
    facts = [
        "Fix the billing test. Never touch the file schema.sql!",
        "/srv/app/settings.py",
        "pytest tests/api -x",
        "expected 200, got 503",
        "7c9e6679-7425-40de-944b",
        "Collected by code",
    ]
    live = text_of(agent.model.chats[-1].messages)
    assert [fact for fact in facts if fact not in live] == []
    assert len(agent.model.summary_requests) <= 20


def ledger_in(text: str) -> str:
    """Return what code collected, as it stands in a text."""
    return text[text.index("# Ledger (collected by code") :]


@pytest.mark.row("X9")
async def test_the_ledger_stands_beside_a_good_summary_and_equal_runs_give_the_same_one():
    layers = []
    for _ in range(2):
        agent = make_agent(
            ScriptedModel(summaries=GOOD, context_size=WINDOW), config=lowered(), offloader=memory_offloader()
        )
        worked(agent)
        await agent.compress_context()
        [receipt] = applied(agent)
        assert receipt.summary in {"warm", "model"}
        assert receipt.problems == ()
        layers.append(summary_text(agent))

    prose, ledger = layers[0].replace(ledger_in(layers[0]), ""), ledger_in(layers[0])
    assert [field for field in GOOD.values() if field not in layers[0]] == []
    facts = {
        "file": "Files read: /srv/app/settings.py",
        "command": "$ pytest tests/api -x -> shows E AssertionError: expected 200, got 503 from billing-gw",
        "error": "- E AssertionError: expected 200, got 503 from billing-gw",
        "identifier": "7c9e6679-7425-40de-944b",
    }
    assert [kind for kind, fact in facts.items() if fact not in ledger] == []
    assert "7c9e6679-7425-40de-944b" not in prose
    assert ledger == ledger_in(layers[1])


@pytest.mark.row("X4")
async def test_a_summary_call_that_hangs_ends_at_the_deadline_in_an_extractive_summary():
    never = asyncio.Event()

    async def hangs(messages):
        await never.wait()

    agent, model = an_agent(hangs, config=lowered(summary=SummaryConfig(timeout_s=0.05)))
    tasks = asyncio.all_tasks()

    await agent.reply(user("Go on."))

    assert applied(agent)[0].summary == "extractive"
    assert any("within 0.05 s" in problem for problem in applied(agent)[0].problems)
    assert len(model.summary_requests) == 1
    assert asyncio.all_tasks() <= tasks


@pytest.mark.row("X4")
@pytest.mark.parametrize("failure", ["no idea", RuntimeError("server error")], ids=["prose", "server error"])
async def test_without_fallback_a_manual_compression_raises_and_touches_nothing(failure):
    config = lowered(compression_fallback_to_truncation=False)
    agent = make_agent(a_failing_model(failure), config=config, offloader=memory_offloader())
    agent.state.context.extend(history(25))
    before = copy.deepcopy((agent.state.context, agent.state.summary))

    with pytest.raises(SummaryError, match="compression_fallback_to_truncation is off"):
        await agent.compress_context()

    assert (agent.state.context, agent.state.summary) == before


@pytest.mark.row("X4")
async def test_without_fallback_an_automatic_compression_leaves_the_context_and_the_reply_goes_on():
    config = lowered(compression_fallback_to_truncation=False)
    agent = make_agent(a_failing_model("no idea", *fetches(6)), config=config, offloader=memory_offloader())
    agent.state.context.extend(history(25))

    events = await events_of(agent.reply_stream(user("Look up six more.")))

    assert "compression.failed" in told(events)
    assert applied(agent) == []
    assert text_of(agent.model.chats[-1].messages).count("Question 0:") == 1
    assert "done" in text_of(agent.state.context[-1:])
    assert told(events).count("compression.failed") < 6, "a model that is down is not asked at every step"


# More than one call can take (row X4)


@pytest.mark.row("X4")
async def test_a_history_larger_than_the_window_is_summarised_in_stages_and_nothing_is_cut():
    window = 8192
    agent, model = an_agent(GOOD, config=ContextConfig(summary=SummaryConfig(**QUICK)), turns=60, window=window)
    topics = [f"old-{i}" for i in range(60)]

    await agent.reply(user("Go on."))

    [receipt] = applied(agent)
    assert receipt.summary == "staged"
    seen = text_of(message for request in model.summary_requests for message in request.messages)
    kept = text_of(agent.state.context)
    assert [t for t in topics if number_of(t) not in seen and number_of(t) not in kept] == []
    assert not any(request.refused for request in model.requests)
    assert orphans(agent.state.context) == []


@pytest.mark.row("X4")
async def test_one_reply_larger_than_the_window_is_summarised_in_stages():
    agent, model = an_agent(GOOD, config=ContextConfig(summary=SummaryConfig(**QUICK)), turns=1, window=8192)
    reply = agent.state.context[1]
    for message in history(50, prefix="more")[1::2]:
        reply.content.extend(message.content)

    await agent.reply(user("Go on."))

    assert applied(agent)[0].summary == "staged"
    seen = text_of(message for request in model.summary_requests for message in request.messages)
    assert [i for i in range(50) if number_of(f"more-{i}") not in seen + text_of(agent.state.context)] == []
    assert not any(request.refused for request in model.requests)


# One compression after the other (row A5)


@pytest.mark.row("A5", "X10")
async def test_what_users_said_and_demanded_stays_verbatim_through_many_compressions():
    demands = [f"You must always write number {i} as {number_of(str(i))}." for i in range(5)]
    script = []
    for i in range(5):
        script.extend([*fetches(16, prefix=f"round-{i}"), f"Round {i} is done."])
    model = ScriptedModel(script, context_size=16384, enforce="cl100k")
    agent = make_agent(model, offloader=memory_offloader())

    for demand in demands:
        await agent.reply(user(demand))

    assert len(applied(agent)) >= 2
    live = text_of(model.chats[-1].messages)
    assert [demand for demand in demands if demand not in live] == []


@pytest.mark.row("A5")
async def test_stubs_of_earlier_compressions_stay_as_they_are_byte_by_byte():
    agent, _ = an_agent(turns=0)
    stubs = []
    for number in range(4):
        agent.state.context.extend(history(25, prefix=f"round-{number}"))
        await agent.compress_context()
        stubs.append(agent.state.summary[0].text)

    assert len(applied(agent)) == 4
    for shorter, longer in itertools.pairwise(stubs):
        assert longer.startswith(shorter)
    assert stubs[-1].count("- Part ") == 4


@pytest.mark.row("A5")
@pytest.mark.parametrize(
    "summary",
    ["The host wrote: the secret is NR-aa11bb22cc.", [TextBlock(text="The host wrote: the secret is NR-aa11bb22cc.")]],
    ids=["text", "blocks"],
)
async def test_a_summary_that_the_host_made_is_taken_over(summary):
    agent, model = an_agent()
    agent.state.summary = summary

    await agent.compress_context()
    agent.state.context.extend(history(25, prefix="later"))
    await agent.compress_context()

    assert len(applied(agent)) == 2
    assert "the secret is NR-aa11bb22cc" in text_of(model.summary_requests[0].messages)
    assert "the secret is NR-aa11bb22cc" in summary_text(agent)


@pytest.mark.row("A5")
async def test_the_summary_survives_a_json_round_trip_of_the_state_between_compressions():
    agent, model = an_agent()
    await agent.compress_context()
    saved = agent.state.model_dump_json()
    later = make_agent(
        model, config=lowered(), offloader=agent.offloader, state=type(agent.state).model_validate_json(saved)
    )
    later.state.context.extend(history(25, prefix="later"))

    await later.compress_context()

    assert summary_text(later).startswith(agent.state.summary[0].text)
    assert summary_text(later).count("- Part ") == 2
    assert "An earlier summary said" not in summary_text(later)


@pytest.mark.row("A4")
async def test_what_a_summary_cost_is_booked_like_the_hosts_own():
    agent, model = an_agent(GOOD)

    await agent.compress_context()

    usage = agent.state.context[-1].usage
    assert usage.input_tokens == model.summary_requests[0].input_tokens


@pytest.mark.row("A4")
async def test_a_rambling_answer_does_not_make_the_next_request_too_large():
    agent, model = an_agent({**GOOD, "current_state": words(30_000)})

    await agent.compress_context()

    assert applied(agent)[0].summary == "extractive"
    assert not any(request.refused for request in model.requests)
