"""Meter: the tokens of a whole request, anchored on what the provider reported last."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from ctxkit.tokens.blocks import REQUEST_FRAME_TOKENS, BlockScale
from ctxkit.tokens.calibration import Calibration
from ctxkit.tokens.classes import ContentClass
from ctxkit.tokens.tracked import TrackedWeights
from ctxkit.tokens.weight import Weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.port import Block
    from ctxkit.tokens.counter import Counter

_STATE_VERSION: Final = 1
_MODELS: Final = 4
"""Models whose anchor and calibration are kept, those learnt last."""
_LIMITS: Final = 16
"""Models whose learnt window is kept, those learnt last."""
_KEY_CHARS: Final = 120
"""Longer model keys are not saved: the state stays under 4 kB."""
_SANE_RATIO: Final = (0.2, 6.0)
"""Reported tokens by estimated ones; beyond, the report is of something else (another unit, cached tokens left out)."""

_content: Final = attrgetter("content")


class _Model:
    """What was learnt about one model: the last report, and how its tokenizer differs from the prior."""

    def __init__(self) -> None:
        self.weight: Weight | None = None
        self.tokens = 0
        self.calibration = Calibration()


class Meter:
    """Weighs one agent's requests, and turns weights into the tokens of a model.

    A call costs what is new since the call before: messages and blocks that are the same objects are not looked at
    again. So a block that is changed in place goes unseen, unless it is the last one or, among the newest, a tool
    result that still runs; a block or message that is replaced by another object is seen wherever it stands.

    Args:
        counter: The prior; see `load_counter`.
    """

    def __init__(self, counter: Counter) -> None:
        self.scale = BlockScale(counter)
        self._model_key = ""
        self._frames: TrackedWeights[Msg] = TrackedWeights(self.scale.weigh_message_frame, is_open=_is_never_open)
        self._blocks = self._track_blocks()
        self._models: dict[str, _Model] = {}
        self._limits: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        """Input tokens of the last request that each model's provider took; what it says now must agree with that."""

    async def weigh_request(
        self, messages: Sequence[Msg], tools: Sequence[Mapping[str, Any]] = (), *, model_key: str
    ) -> Weight:
        """Return the weight of a request.

        Args:
            messages: What is sent, system prompt first; each `content` is a list of blocks.
            tools: The tool schemas.
            model_key: The model, as `ModelPort.key` names it.
        """
        if model_key != self._model_key:  # media weigh by the model's rule
            self._model_key = model_key
            self._blocks = self._track_blocks()
        live = list(messages)
        blocks: Iterable[Block] = chain.from_iterable(map(_content, live))
        parts = [
            await self._blocks.update(blocks),
            await self._frames.update(live),
            await self.scale.weigh_tools(tools),
            Weight.of({ContentClass.FRAME: REQUEST_FRAME_TOKENS}),
        ]
        return Weight.sum(parts)

    async def weigh_block(self, block: Block, *, model_key: str) -> Weight:
        """Return the weight of one block; one of the last request costs a look-up."""
        known = self._blocks.known(block) if model_key == self._model_key else None
        return await self.scale.weigh_block(block, model_key=model_key) if known is None else known

    async def weigh_frame(self, message: Msg) -> Weight:
        """Return the weight of what a message has around its blocks; of the last request's it costs a look-up."""
        known = self._frames.known(message)
        return await self.scale.weigh_message_frame(message) if known is None else known

    def estimate(self, weight: Weight, *, model_key: str) -> int:
        """Return the tokens that a request of this weight has.

        With a report at hand, what is still there of the reported request keeps its share of the reported tokens, and
        what came since is added by calibration. (Subtracting the removed part by calibration would leave the whole
        request's error on the little that a compression keeps.)

        Args:
            weight: From `weigh_request`, or a sum made of its parts.
            model_key: The model, as `ModelPort.key` names it.
        """
        model = self._models.get(model_key)
        if model is None:
            return max(0, math.ceil(weight.total))
        calibrated = model.calibration.scale
        if model.weight is None:
            return max(0, math.ceil(calibrated(weight)))
        kept = Weight(tuple(map(min, weight.tokens, model.weight.tokens)))
        base = calibrated(model.weight)
        anchored = model.tokens * calibrated(kept) / base if base > 0 else calibrated(kept)
        # Less a hair, so that rounding never makes one token of nothing.
        return max(0, math.ceil(anchored + calibrated(weight - kept) - 1e-6))

    def calibrated(self, weight: Weight, *, model_key: str) -> float:
        """Return the tokens of a part of a request, as calibrated for a model."""
        model = self._models.get(model_key)
        return weight.total if model is None else model.calibration.scale(weight)

    def is_anchored(self, model_key: str) -> bool:
        """Whether a report of this model's provider is at hand."""
        model = self._models.get(model_key)
        return model is not None and model.weight is not None

    def learn(self, weight: Weight, input_tokens: int, *, model_key: str) -> bool:
        """Take a provider's report on a request.

        Args:
            weight: The request's weight.
            input_tokens: The reported input tokens, cached ones included.
            model_key: The model that answered.

        Returns:
            Whether the report was believed; one that is far off is ignored, and what was known stays.
        """
        if not _is_count(input_tokens) or weight.total <= 0:
            return False
        low, high = _SANE_RATIO
        if not low <= input_tokens / weight.total <= high:
            return False
        model = self._models.pop(model_key, None) or _Model()
        if model.weight is None:
            model.calibration.update(weight, input_tokens)
        else:
            model.calibration.update(weight - model.weight, input_tokens - model.tokens)
        model.weight, model.tokens = weight, input_tokens
        self._models[model_key] = model
        _keep_newest(self._models, _MODELS)
        return True

    def learn_limit(self, model_key: str, tokens: int) -> None:
        """Remember the window that a provider named when it refused a request; the smallest one named holds.

        Args:
            model_key: The model that refused.
            tokens: Its window; ignored where it is no positive number, or smaller than the last request that was taken.
        """
        if _is_count(tokens) and tokens >= self._taken.get(model_key, 0):
            self._limits[model_key] = min(tokens, self._limits.pop(model_key, tokens))
            _keep_newest(self._limits, _LIMITS)

    def learn_taken(self, model_key: str, tokens: int) -> None:
        """Remember that a provider took a request; a smaller window that was learnt before is no longer believed.

        Args:
            model_key: The model that answered.
            tokens: The reported input tokens of the request; not a positive number, it is ignored.
        """
        if _is_count(tokens):
            self._taken[model_key] = tokens
            _keep_newest(self._taken, _LIMITS)
            if tokens > self._limits.get(model_key, tokens):
                del self._limits[model_key]

    def limit(self, model_key: str, context_size: int) -> int:
        """Return the window to keep to: the smaller of the one configured and the one learnt, in tokens."""
        return min(context_size, self._limits.get(model_key, context_size))

    def state(self) -> dict[str, Any]:
        """Return what was learnt as plain JSON, under 4 kB."""
        return {
            "version": _STATE_VERSION,
            "models": {
                key: {
                    "weight": model.weight.to_json() if model.weight else None,
                    "tokens": model.tokens,
                    "calibration": model.calibration.to_json(),
                }
                for key, model in self._models.items()
                if len(key) <= _KEY_CHARS
            },
            "limits": {key: tokens for key, tokens in self._limits.items() if len(key) <= _KEY_CHARS},
        }

    def load(self, state: object) -> None:
        """Replace what was learnt by what `state` returned once; parts that cannot be read are left out."""
        self._models, self._limits = {}, {}
        if not isinstance(state, dict) or state.get("version") != _STATE_VERSION:
            return
        for key, saved in _items(state.get("models")):
            if isinstance(saved, dict):
                self._models[key] = _load_model(saved)
        for key, tokens in _items(state.get("limits")):
            if _is_count(tokens):
                self._limits[key] = tokens
        _keep_newest(self._models, _MODELS)
        _keep_newest(self._limits, _LIMITS)

    def _track_blocks(self) -> TrackedWeights[Block]:
        """Return an empty memory of blocks that weighs by the current model's rules."""
        model_key = self._model_key

        async def weigh(block: Block) -> Weight:
            return await self.scale.weigh_block(block, model_key=model_key)

        return TrackedWeights(weigh, is_open=_is_running)


def _load_model(saved: dict[str, Any]) -> _Model:
    model = _Model()
    model.calibration = Calibration.from_json(saved.get("calibration"))
    tokens = saved.get("tokens")
    if _is_count(tokens):
        # A calibration without its anchor still helps.
        with suppress(ValueError):
            model.weight, model.tokens = Weight.from_json(saved.get("weight")), tokens
    return model


def _is_running(block: Block) -> bool:
    """Tell whether a block is a tool result that still grows in place."""
    return getattr(block, "type", None) == "tool_result" and getattr(block, "state", None) == "running"


def _is_never_open(_: Msg) -> bool:
    """Say that a message's name and role do not change."""
    return False


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _items(value: object) -> Iterable[tuple[str, Any]]:
    """Return the items of what should be a dict with text keys."""
    return [(key, item) for key, item in value.items() if isinstance(key, str)] if isinstance(value, dict) else []


def _keep_newest(entries: dict[str, Any], most: int) -> None:
    """Remove the oldest entries of a dict in which the newest were put last."""
    for key in list(entries)[:-most]:
        del entries[key]
