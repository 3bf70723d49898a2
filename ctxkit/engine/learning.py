"""A model whose refusals teach: summary calls, too, are told how large the provider's window really is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxkit.overflow import recognise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.message import Msg

    from ctxkit.engine.kit import Kit
    from ctxkit.port import Answer, ModelPort


class LearningModel:
    """An agent's model with the window that is known to be true; see `ctxkit.port.ModelPort`.

    Args:
        kit: The agent's kit, which learns.
        model: The model that is called.
    """

    def __init__(self, kit: Kit, model: ModelPort) -> None:
        self._kit = kit
        self._model = model

    @property
    def key(self) -> str:
        """Name that tells this model's token counts from another's."""
        return self._model.key

    @property
    def context_size(self) -> int:
        """Tokens of the window: what the model claims, or less where its provider taught better."""
        return self._kit.gauge.window(self._model)

    async def call(
        self,
        messages: Sequence[Msg],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        tool_choice: object | None = None,
        forbid_tools: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Call the model and gather its whole answer."""
        try:
            return await self._model.call(
                messages, tools, tool_choice=tool_choice, forbid_tools=forbid_tools, options=options
            )
        except Exception as exc:
            self._learn(exc)
            raise

    async def structured(self, messages: Sequence[Msg], schema: Mapping[str, Any]) -> Answer:
        """Ask by the host's `generate_structured_output`."""
        try:
            return await self._model.structured(messages, schema)
        except Exception as exc:
            self._learn(exc)
            raise

    def _learn(self, error: Exception) -> None:
        overflow = recognise(error)
        if overflow is not None and overflow.limit_tokens is not None:
            self._kit.gauge.meter.learn_limit(self.key, overflow.limit_tokens)
            self._kit.save_meter()
