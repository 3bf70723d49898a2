"""Situations, budgets and a carrying out of edits, for properties of plans over contexts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentscope.state import AgentState
from hypothesis import strategies as st

from ctxkit.config import OffloadConfig, OverflowConfig, ResultsConfig, Settings, SummaryConfig, TriggersConfig
from ctxkit.engine.apply import apply_edits
from ctxkit.host._codec import HostCodec
from ctxkit.plan import Edit, EditKind
from ctxkit.schema import summary_json_schema
from ctxkit.strategies import Situation
from ctxkit.strategies.cleared import with_reference
from ctxkit.strategies.images import is_image
from ctxkit.strategies.ladder import plan_ladder, shorten_more
from ctxkit.view import Place, View
from tests.property.contexts import Context

if TYPE_CHECKING:
    from ctxkit.port import Block, Piece

CODEC = HostCodec()
IMAGE_TOKENS = 85
NOTE = "gone"

settings = st.builds(
    Settings,
    trigger_ratio=st.just(0.8),
    reserve_ratio=st.just(0.1),
    compression_prompt=st.just("Summarise."),
    summary_template=st.just("{task_overview}"),
    summary_schema=st.just(summary_json_schema()),
    tool_result_limit=st.sampled_from([50, 500, 50_000]),
    fallback_to_truncation=st.just(True),
    max_image_num=st.sampled_from([0, 1, 3, 100]),
    results=st.builds(
        ResultsConfig,
        paste_limit_ratio=st.sampled_from([0.05, 0.25, 1.0]),
        exclude_tools=st.sampled_from([frozenset(), frozenset({"free"})]),
    ),
    summary=st.just(SummaryConfig()),
    triggers=st.just(TriggersConfig()),
    overflow=st.just(OverflowConfig()),
    offload=st.just(OffloadConfig()),
)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How a context is to be planned."""

    settings: Settings
    context_size: int
    keep_tokens: float | None
    kind: EditKind
    free_tokens: float
    floor_tokens: int

    def plan(self, here: Situation) -> tuple[Edit, ...]:
        """Return the edits of the ladder, and of the shortening on top of it."""
        edits = plan_ladder(here, keep_tokens=self.keep_tokens, kind=self.kind)
        return shorten_more(here, edits, free_tokens=self.free_tokens, floor_tokens=self.floor_tokens)


policies = st.builds(
    Policy,
    settings=settings,
    context_size=st.sampled_from([200, 2_000, 32_000]),
    keep_tokens=st.sampled_from([None, 0, 0, 1, 30, 300, 1_500, 1e9]),
    kind=st.sampled_from([EditKind.COMPRESS, EditKind.DROP]),
    free_tokens=st.sampled_from([0, 0, 1, 200, 5_000, 1e9]),
    floor_tokens=st.sampled_from([48, 256]),
)


def tokens_of(block: Block) -> float:
    """Count a token for four characters."""
    if block.type == "data":
        return IMAGE_TOKENS
    return sum(len(part) / 4 if isinstance(part, str) else IMAGE_TOKENS for part in parts_of(block))


def parts_of(block: Block) -> list[str | Piece]:
    """Return the texts and images of a block that is neither."""
    match block.type:
        case "text":
            return [block.text]
        case "thinking":
            return [block.thinking]
        case "tool_call":
            return [block.input]
    inside = block.hint if block.type == "hint" else block.output
    return [inside] if isinstance(inside, str) else [p.text if p.type == "text" else p for p in inside]


def situation(view: View, policy: Policy) -> Situation:
    tokens = [[tokens_of(block) for block in content] for content in view.contents]
    return Situation(
        view=view,
        tokens=tokens,
        request_tokens=round(sum(map(sum, tokens))) + 100,
        fixed_tokens=100,
        context_size=policy.context_size,
        settings=policy.settings,
    )


def applied(view: View, edits: Sequence[Edit]) -> View:
    """Return the view of the context after edits, each block shortened to just what its edit lets it keep."""
    replacements = {}
    for edit in edits:
        place = Place(edit.message, edit.start)
        if edit.kind is EditKind.IMAGE:
            replacements[place] = without_images(block_at(view, place), edit.images, view.messages[edit.message].role)
        elif edit.kind is EditKind.TRUNCATE:
            replacements[place] = shortened(block_at(view, place), edit.keep_tokens)
        elif edit.kind in {EditKind.CLEAR, EditKind.SHRINK}:
            replacements[place] = replaced(block_at(view, place), edit)
    context = apply_edits(view, edits, replacements, CODEC)
    return View(context, agent_name=view.agent_name, reply_id=view.reply_id)


def block_at(view: View, place: Place) -> Block:
    return view.contents[place.message][place.block]


def shortened(block: Block, tokens: int) -> Block:
    """Return a block of at most so many tokens; images go first."""
    text = "".join(part for part in parts_of(block) if isinstance(part, str))[: tokens * 4]
    match block.type:
        case "tool_call":
            return CODEC.with_input(block, json.dumps({"a": "q" * (tokens * 4 - len('{"a": ""}'))}))
        case "tool_result":
            return CODEC.with_output(block, [CODEC.text(text)], mark={"admitted": True, "shortened": True})
    return CODEC.with_text(block, text)


def replaced(block: Block, edit: Edit) -> Block:
    """Return a tool result in which an edit's text stands."""
    mark = {"admitted": True, "cleared" if edit.kind is EditKind.CLEAR else "shrunk": True}
    return CODEC.with_output(block, with_reference(edit.text or "", "ctx://s/abc", recall=True), mark=mark)


def without_images(block: Block, count: int, role: str) -> Block:
    """Return a block whose oldest images are notes, as the host makes them: a hint where an assistant holds the image."""
    if block.type == "data":
        return CODEC.text(NOTE) if role == "user" else CODEC.hint(NOTE)
    pieces, left = [], count
    for piece in block.output if block.type == "tool_result" else block.hint:
        pieces.append(CODEC.text(NOTE) if is_image(piece) and left > 0 else piece)
        left -= is_image(piece)
    if block.type == "tool_result":
        return CODEC.with_output(block, pieces)
    return block.model_copy(update={"hint": pieces})


def total(view: View) -> float:
    return sum(tokens_of(block) for _, block in view.blocks())


def reloaded(context: Context) -> Context:
    """Return the context as it is after a restart."""
    state = AgentState(context=context.messages)
    state.reply_id = context.reply_id
    back = AgentState.model_validate_json(state.model_dump_json())
    return Context(messages=back.context, reply_id=back.reply_id)
