"""Hypothesis strategies of contexts in every shape that AgentScope, a person or another program can leave behind."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentscope.message import (
    Base64Source,
    DataBlock,
    HintBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallState,
    ToolResultBlock,
    ToolResultState,
)
from hypothesis import strategies as st

from ctxkit.strategies.images import images_of
from ctxkit.view import View

if TYPE_CHECKING:
    from ctxkit.port import Block

AGENT = "agent"
CHARS = st.sampled_from([1, 20, 400, 3_000])
"""Sizes of texts: next to nothing, a line, a page, more than the limits of the smaller windows."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """A context and the reply that runs, is parked, or ran last."""

    messages: list[Msg]
    reply_id: str

    def view(self) -> View:
        return View(self.messages, agent_name=AGENT, reply_id=self.reply_id)


@dataclass
class Ids:
    """Ids that no other block or message of a context has; calls may be numbered anew in each reply."""

    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def new(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"


@st.composite
def texts(draw: st.DrawFn, ids: Ids) -> TextBlock:
    return TextBlock(id=ids.new("t"), text=draw(st.sampled_from("aé漢")) * draw(CHARS))


def image(ids: Ids) -> DataBlock:
    return DataBlock(id=ids.new("d"), source=Base64Source(data="iVBORw0KGgo=", media_type="image/png"))


@st.composite
def hints(draw: st.DrawFn, ids: Ids) -> HintBlock:
    text = draw(texts(ids))
    return HintBlock(id=ids.new("h"), hint=draw(st.sampled_from([text.text, [text], [text, image(ids)]])))


@st.composite
def results(draw: st.DrawFn, ids: Ids, call: ToolCallBlock) -> ToolResultBlock:
    text = draw(texts(ids))
    return ToolResultBlock(
        id=call.id,
        name=call.name,
        output=draw(st.sampled_from([text.text, [text], [text, image(ids)], [image(ids), image(ids)], []])),
        state=draw(st.sampled_from([ToolResultState.SUCCESS, ToolResultState.ERROR, ToolResultState.INTERRUPTED])),
    )


@st.composite
def calls(draw: st.DrawFn, ids: Ids, call_id: str, state: ToolCallState = ToolCallState.FINISHED) -> ToolCallBlock:
    arguments = '{"query": "' + "q" * draw(CHARS) + '"}'
    return ToolCallBlock(id=call_id, name=draw(st.sampled_from(["search", "free"])), input=arguments, state=state)


@st.composite
def spoken(draw: st.DrawFn, ids: Ids) -> list[Block]:
    """Draw what an agent says before it calls a tool."""
    blocks: list[Block] = []
    if draw(st.booleans()):
        blocks.append(ThinkingBlock(id=ids.new("k"), thinking="k" * draw(CHARS), signature="signed"))
    if draw(st.booleans()):
        blocks.append(draw(texts(ids)))
    return blocks


@st.composite
def steps(draw: st.DrawFn, ids: Ids, call_ids: list[str]) -> list[Block]:
    """Draw one reasoning step: speech, parallel calls, their results in any order, perhaps a hint before it."""
    made = [draw(calls(ids, call_id)) for call_id in call_ids]
    answered = [draw(results(ids, call)) for call in draw(st.permutations(made))]
    before = [draw(hints(ids))] if draw(st.integers(0, 4)) == 0 else []
    return [*before, *draw(spoken(ids)), *made, *answered]


@st.composite
def replies(draw: st.DrawFn, ids: Ids, name: str) -> list[Msg]:
    """Draw a finished reply as AgentScope keeps it, in one message, or as other programs do, calls and results apart."""
    numbered_anew = draw(st.booleans())
    own = Ids() if numbered_anew else ids
    drawn = [
        draw(steps(ids, [own.new("call_") for _ in range(n)])) for n in draw(st.lists(st.integers(0, 3), max_size=4))
    ]
    ending = draw(spoken(ids)) if draw(st.booleans()) else []
    if draw(st.booleans()):
        return [assistant(ids, name, [*itertools.chain(*drawn), *ending])]
    apart = []
    for blocks in drawn:
        apart.append([block for block in blocks if block.type != "tool_result"])
        found = [block for block in blocks if block.type == "tool_result"]
        # AgentScope sends a result's image behind the message it stands in: in the midst of the results it would be refused.
        single = draw(st.booleans()) and not any(True for block in found for _ in images_of(block))
        apart += [[block] for block in found] if single else [found]
    return [assistant(ids, name, blocks) for blocks in (*apart, ending) if blocks]


def assistant(ids: Ids, name: str, blocks: list[Block], *, message_id: str | None = None) -> Msg:
    return Msg(id=message_id or ids.new("m"), name=name, role="assistant", content=blocks)


@st.composite
def requests(draw: st.DrawFn, ids: Ids) -> list[Msg]:
    """Draw what one user or several ask, in one message or several, perhaps with pictures."""
    messages = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3, 20]))):
        blocks: list[TextBlock | DataBlock] = [draw(texts(ids)) for _ in range(draw(st.integers(1, 2)))]
        blocks += [image(ids)] * draw(st.integers(0, 1))
        messages.append(Msg(id=ids.new("m"), name=draw(st.sampled_from(["alice", "bob"])), role="user", content=blocks))
    return messages


@st.composite
def running(draw: st.DrawFn, ids: Ids, reply_id: str) -> list[Msg]:
    """Draw the reply that runs or is parked: empty, after some steps, or with calls that wait."""
    blocks: list[Block] = []
    for _ in range(draw(st.integers(0, 3))):
        blocks += draw(steps(ids, [ids.new("call_") for _ in range(draw(st.integers(0, 2)))]))
    state = draw(st.sampled_from([None, *ToolCallState]))
    if state is not None:
        made = [draw(calls(ids, ids.new("call_"), state)) for _ in range(draw(st.integers(1, 3)))]
        answered = [draw(results(ids, call)) for call in made[1:] if draw(st.booleans())]
        blocks += [*draw(spoken(ids)), *made, *answered]
    elif draw(st.booleans()):
        blocks += [draw(hints(ids)) for _ in range(draw(st.integers(1, 2)))]
    return [assistant(ids, AGENT, blocks, message_id=reply_id)]


@st.composite
def wreckage(draw: st.DrawFn, ids: Ids, reply_id: str) -> list[Msg]:
    """Draw what no host should leave: orphans, ids used twice, results before calls, a reply torn in two."""
    call = draw(calls(ids, draw(st.sampled_from(["call_0", "call_1"]))))
    answer = draw(results(ids, call))
    thought = ThinkingBlock(id=ids.new("k"), thinking="k", signature="signed")
    blocks: list[Block] = draw(
        st.sampled_from(
            [
                [answer],
                [thought, call],
                [call, call],
                [call, answer, answer],
                [answer, call],
                [call, call, answer],
                [call, answer, call, answer],
            ]
        )
    )
    message_id = draw(st.sampled_from([reply_id, "m0", ids.new("m")]))
    return [assistant(ids, draw(st.sampled_from([AGENT, "other"])), blocks, message_id=message_id)]


@st.composite
def contexts(draw: st.DrawFn, *, hostile: bool = False) -> Context:
    """Draw a context; only hostile ones have what a provider would refuse."""
    ids = Ids()
    reply_id = ids.new("reply")
    kinds = ["request", "request", "reply", "reply", "other", "empty", *(["wreckage", "wreckage"] if hostile else [])]
    messages: list[Msg] = []
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=6)):
        match kind:
            case "request":
                messages += draw(requests(ids))
            case "reply":
                messages += draw(replies(ids, AGENT))
            case "other":
                messages += draw(replies(ids, "other"))
            case "empty":
                messages.append(assistant(ids, AGENT, []))
            case _:
                messages += draw(wreckage(ids, reply_id))
    if draw(st.booleans()):
        messages += draw(running(ids, reply_id))
    if hostile and draw(st.booleans()):
        messages += [*draw(requests(ids)), *draw(running(ids, reply_id))]
    return Context(messages=messages, reply_id=reply_id)
