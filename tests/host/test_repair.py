"""Broken contexts of real agents: refused by a strict provider before they are repaired, and answered after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio
from agentscope.credential import AnthropicCredential, OpenAICredential
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import AssistantMsg, Msg, TextBlock, ToolCallBlock, ToolResultBlock
from agentscope.model import AnthropicChatModel, OpenAIChatModel
from agentscope.state import AgentState
from agentscope.tool import FunctionTool

from ctxkit import ContextConfig
from ctxkit.host._codec import HostCodec
from ctxkit.sessions.repair import MISSING_RESULT, repair_context, repair_file, repair_state
from ctxkit.testing import FakeProvider, ProviderRequest, Refusal, Reply, ScriptedModel, call
from tests.host.agents import events_of, fetches, make_agent, memory_offloader, orphans, text_of, user
from tests.property.wire import anthropic_refusals, openai_refusals

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.may_block("the SDKs read certificates when a client is made"),
]

Context = Callable[[], list[Msg]]


def a_call(call_id: str = "call_1", **more: Any) -> ToolCallBlock:
    return ToolCallBlock(id=call_id, name="fetch", input='{"topic": "x"}', state="finished").model_copy(update=more)


def a_result(call_id: str = "call_1", text: str = "found") -> ToolResultBlock:
    return ToolResultBlock(id=call_id, name="fetch", output=[TextBlock(text=text)], state="success")


def said(*blocks: Any) -> Msg:
    return AssistantMsg(name="scribe", content=list(blocks))


def an_answer() -> TextBlock:
    return TextBlock(text="So it is.")


BROKEN: dict[str, Context] = {
    "missing": lambda: [said(a_call(), an_answer())],
    "missing, others there": lambda: [said(a_call(), a_call("b"), a_result("b"), an_answer())],
    "missing, across messages": lambda: [said(a_call()), user("And?"), said(an_answer())],
    "orphan": lambda: [said(a_result(), an_answer())],
    "orphan, across messages": lambda: [said(an_answer()), user("And?"), said(a_result("lost"), an_answer())],
    "duplicate": lambda: [said(a_call(), a_result(), a_result(text="again"), an_answer())],
    "duplicate, across messages": lambda: [said(a_call(), a_result()), user("And?"), said(a_result(), an_answer())],
    "misplaced": lambda: [said(a_call(), a_call("b"), a_result("b"), an_answer(), a_result())],
    "misplaced, before": lambda: [said(a_result(), a_call(), an_answer())],
    "misplaced, across messages": lambda: [said(a_call()), user("And?"), said(a_result(), an_answer())],
    "incomplete": lambda: [said(a_call("", state="pending"), an_answer())],
    "incomplete, answered": lambda: [said(a_call(name=""), a_result(), an_answer())],
    "incomplete, across messages": lambda: [said(a_call(name="")), user("And?"), said(a_result(), an_answer())],
    "one id twice": lambda: [said(a_call(), a_call(input='{"topic": "y"}'), a_result(), a_result(), an_answer())],
}


def is_nameless(messages: list[dict[str, Any]]) -> bool:
    """Return whether a call lacks an id or a name, which both APIs refuse."""
    openai = [c["function"]["name"] and c["id"] for m in messages for c in m.get("tool_calls") or []]
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    anthropic = [b["id"] and b["name"] for b in blocks if b["type"] == "tool_use"]
    return not all([*openai, *anthropic])


def strict(request: ProviderRequest) -> Reply | Refusal:
    """Answer only a transcript in which the provider's rules about tool calls are kept."""
    messages = request.body["messages"]
    judge = openai_refusals if request.protocol == "openai" else anthropic_refusals
    refusals = judge(messages) or (["a call without id or name"] if is_nameless(messages) else [])
    if not refusals:
        return Reply(text="All is well.")
    error = {"type": "invalid_request_error", "message": refusals[0]}
    return Refusal(status=400, body={"type": "error", "error": error})


@pytest_asyncio.fixture(params=["openai", "anthropic"])
async def model(request):
    kinds = {"openai": (OpenAIChatModel, OpenAICredential), "anthropic": (AnthropicChatModel, AnthropicCredential)}
    kind, credential = kinds[request.param]
    async with FakeProvider(after=strict) as provider:
        made = kind(
            credential=credential(api_key="none", base_url=provider.base_url),
            model="test-model",
            stream=False,
            max_retries=0,
            context_size=32768,
            client_kwargs={"max_retries": 0},
        )
        yield made
        await made.client.close()


def an_agent(model, context: list[Msg], **settings: Any):
    agent = make_agent(model, offloader=memory_offloader(), **settings)
    agent.state.context.extend([user("What of x?"), *context])
    return agent


def repaired(state: AgentState):
    return repair_context(state.context, agent_name="scribe", reply_id=state.reply_id, codec=HostCodec())


@pytest.mark.row("O15")
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_a_strict_provider_answers_a_repaired_context(model, broken):
    agent = an_agent(model, broken())

    outcome = repaired(agent.state)
    agent.state.context = list(outcome.messages)
    answer = await agent.reply(user("Is all well?"))

    assert outcome.repairs
    assert answer.get_text_content() == "All is well."
    assert orphans(agent.state.context) == []
    assert "So it is." in text_of(agent.state.context)


@pytest.mark.parametrize("broken", ["missing", "orphan", "duplicate", "misplaced", "missing, across messages"])
async def test_the_same_context_is_refused_without_the_repair(model, broken):
    agent = an_agent(model, BROKEN[broken]())

    with pytest.raises(Exception, match=r"call|result"):
        await agent.reply(user("Is all well?"))


@pytest.mark.row("O15")
async def test_an_agent_killed_at_a_tool_goes_on_from_its_saved_state():
    agent = make_agent(ScriptedModel([*fetches(2), "done"], context_size=8192))
    await agent.reply(user("Look up two topics."))
    saved = agent.state.model_dump(mode="json")
    own = saved["context"][1]["content"]
    last = max(i for i, block in enumerate(own) if block["type"] == "tool_call")
    del own[last + 1 :]  # the process died while the tool ran
    own[last]["state"] = "allowed"

    outcome = repair_state(saved, HostCodec(), agent_name="scribe")
    state = AgentState.model_validate(outcome.state)
    later = make_agent(ScriptedModel(["Sorry for the break."], context_size=8192), state=state)
    answer = await later.reply(user("Go on."))

    assert [repair.kind for repair in outcome.repairs] == ["missing_result"]
    assert outcome.state["context"][0] is saved["context"][0]
    assert answer.get_text_content() == "Sorry for the break."
    assert MISSING_RESULT in text_of(later.state.context)
    assert orphans(later.state.context) == []


def dangerous(what: str) -> str:
    """Do something that a person must allow.

    Args:
        what (str): What to do.
    """
    return f"Did {what}."


@pytest.mark.row("O15")
async def test_a_call_that_waits_for_a_person_goes_on_after_a_repair_of_what_stands_before_it():
    asked = call("dangerous", what="the deed")
    model = ScriptedModel([*fetches(1), asked, "All done."], context_size=8192)
    agent = make_agent(model, tools=[FunctionTool(dangerous)], offloader=memory_offloader(), config=ContextConfig())
    agent.state.context.extend([user("Before."), said(a_call()), said(a_result("lost"), an_answer())])
    events = await events_of(agent.reply_stream(user("Look up, then do the deed.")))
    [question] = [event for event in events if isinstance(event, RequireUserConfirmEvent)]

    saved = agent.state.model_dump(mode="json")
    state = AgentState.model_validate(repair_state(saved, HostCodec(), agent_name="scribe").state)
    later = make_agent(ScriptedModel(["All done."], context_size=8192), tools=[FunctionTool(dangerous)], state=state)
    assert [block.id for block in later.state.get_awaiting_tool_calls("scribe")] == [asked.id]
    confirmed = ConfirmResult(confirmed=True, tool_call=question.tool_calls[0])
    await events_of(later.reply_stream(UserConfirmResultEvent(reply_id=state.reply_id, confirm_results=[confirmed])))

    assert "Did the deed." in text_of(later.state.context)
    assert "All done." in text_of(later.state.context)
    assert orphans(later.state.context) == []


@pytest.mark.row("O15")
@pytest.mark.parametrize("broken", [{"input": None}, {"name": None}, {"id": None}, {"input": ...}, {"name": ...}])
async def test_a_state_that_agentscope_refuses_for_an_incomplete_call_loads_after_the_repair(broken):
    state = AgentState(context=[user("What of x?"), said(a_call(), a_result(), an_answer())])
    saved = state.model_dump(mode="json")
    for key, value in broken.items():
        if value is ...:
            del saved["context"][1]["content"][0][key]
        else:
            saved["context"][1]["content"][0][key] = value
    with pytest.raises(ValueError, match="context"):
        AgentState.model_validate(saved)

    outcome = repair_state(saved, HostCodec())

    loaded = AgentState.model_validate(outcome.state)
    assert [block.type for block in loaded.context[1].content] == ["text"]
    assert saved["context"][1]["content"][0] in [item.get("broken") for item in outcome.dropped]
    assert "found" in json.dumps(outcome.dropped)


@pytest.mark.row("O15")
async def test_results_that_another_program_wrote_into_user_messages_come_to_their_calls():
    foreign = {
        "role": "user",
        "name": "user",
        "id": "m9",
        "content": [a_result().model_dump(), {"type": "text", "text": "And?"}],
    }
    saved = AgentState(context=[user("What of x?"), said(a_call())]).model_dump(mode="json")
    saved["context"].append(foreign)

    loaded = AgentState.model_validate(repair_state(saved, HostCodec()).state)

    assert [[block.type for block in message.content] for message in loaded.context] == [
        ["text"],
        ["tool_call", "tool_result"],
        ["text"],
    ]
    assert loaded.context[2].id == "m9"


@pytest.mark.row("O14")
async def test_a_saved_state_on_disk_is_repaired_and_an_agent_goes_on_with_it(tmp_path):
    path = tmp_path / "scribe.state.json"
    state = AgentState(context=[user("What of x?"), said(a_call(), an_answer())])
    path.write_text(state.model_dump_json())

    report = repair_file(path, codec=HostCodec())
    loaded = AgentState.model_validate_json(path.read_text())
    agent = make_agent(ScriptedModel(["All is well."], context_size=8192), state=loaded)
    await agent.reply(user("Is all well?"))

    assert report.outcome == "repaired"
    assert AgentState.model_validate_json(report.backup.read_text()).context[1].id == loaded.context[1].id
    assert loaded.session_id == state.session_id
    assert orphans(agent.state.context) == []
