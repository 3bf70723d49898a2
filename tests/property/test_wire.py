"""A transcript that a provider would take before a plan is taken after it."""

from __future__ import annotations

import asyncio

from agentscope.formatter import AnthropicChatFormatter, OpenAIChatFormatter
from agentscope.message import Msg, SystemMsg, ToolResultBlock, UserMsg
from hypothesis import assume, given, settings

from ctxkit.view import View
from tests.property.contexts import Context, contexts
from tests.property.plans import Policy, applied, policies, situation
from tests.property.wire import Wire, anthropic_refusals, openai_refusals

LAYERS = [SystemMsg(name="system", content="Be kind."), UserMsg(name="user", content="<summary>Once.</summary>")]
many = settings(max_examples=100, deadline=None)


def on_the_wire(formatter: OpenAIChatFormatter | AnthropicChatFormatter, view: View) -> Wire:
    return asyncio.run(formatter.format([*LAYERS, *answered(view)]))


def answered(view: View) -> list[Msg]:
    """Return the messages as they are sent: AgentScope waits with that until the calls of the running reply are answered."""
    results = [ToolResultBlock(id=e.call_id, name=e.tool, output="ok") for e in view.unfinished]
    if not results:
        return list(view.messages)
    *others, last = view.messages
    return [*others, last.model_copy(update={"content": [*last.content, *results]})]


def refusals(view: View) -> list[str]:
    openai = openai_refusals(on_the_wire(OpenAIChatFormatter(), view))
    return [*openai, *anthropic_refusals(on_the_wire(AnthropicChatFormatter(), view))]


def planned(context: Context, policy: Policy) -> tuple[View, View]:
    view = context.view()
    return view, applied(view, policy.plan(situation(view, policy)))


@many
@given(contexts(), policies)
def test_a_well_formed_transcript_stays_one_for_openai_and_anthropic(context: Context, policy: Policy):
    before, after = planned(context, policy)
    # Nothing is left out at the newest AgentScope; up to 2.0.8 it sends an image of one parallel result amid the others.
    assume(refusals(before) == [])
    assert refusals(after) == []


@many
@given(contexts(hostile=True), policies)
def test_a_hostile_transcript_is_not_made_worse(context: Context, policy: Policy):
    before, after = planned(context, policy)
    assert len(refusals(after)) <= len(refusals(before))


CALL = {"role": "assistant", "tool_calls": [{"id": "a"}]}
TOOL = {"role": "tool", "tool_call_id": "a"}
USER = {"role": "user", "content": "do"}


def test_the_judge_of_openai_refuses_what_openai_refuses():
    assert openai_refusals([USER, CALL, TOOL, USER]) == []
    assert openai_refusals([USER, CALL]) == ["call 'a' was not answered"]
    assert openai_refusals([USER, TOOL]) == ["message 1: result 'a' answers no call before it"]
    assert openai_refusals([CALL, TOOL, TOOL]) == ["message 2: result 'a' answers no call before it"]
    assert openai_refusals([CALL, USER, TOOL]) == [
        "message 1: call 'a' was not answered before it",
        "message 2: result 'a' answers no call before it",
    ]


def test_the_judge_of_anthropic_refuses_what_anthropic_refuses():
    ask = {"role": "user", "content": [{"type": "text"}]}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}
    assert anthropic_refusals([ask, use, answer, ask]) == []
    assert anthropic_refusals([ask, use]) == ["call 'a' was not answered"]
    assert anthropic_refusals([use, answer]) == ["the first turn is not the user's"]
    assert anthropic_refusals([ask, use, ask]) == ["turn 2: call 'a' was not answered in it"]
    assert anthropic_refusals([ask, answer]) == ["turn 0: result 'a' answers no call of the turn before"]
    twice = {**use, "content": use["content"] * 2}
    assert anthropic_refusals([ask, twice, answer])[0] == "turn 1: id 'a' is used 2 times"
