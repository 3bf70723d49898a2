"""`SummarySchema` and `SummaryGenerator`: the structured summary, usable without the middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentscope.agent import ContextConfig as HostContextConfig
from pydantic import BaseModel, Field

from ctxkit.host._codec import HostCodec
from ctxkit.host._port import HostModel
from ctxkit.host.context_config import settings_of
from ctxkit.offload.redact import redactor_of
from ctxkit.schema import SUMMARY_FIELDS
from ctxkit.summary import Summarizer
from ctxkit.tokens import count_text, load_counter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentscope.message import Msg
    from agentscope.model import ChatModelBase


class SummarySchema(BaseModel):
    """The five fields of a summary, as AgentScope has them; `ContextConfig.summary_schema` takes its JSON schema."""

    task_overview: str = Field(description=SUMMARY_FIELDS["task_overview"])
    """What the user asked for, and what counts as success."""

    current_state: str = Field(description=SUMMARY_FIELDS["current_state"])
    """What has been done so far."""

    important_discoveries: str = Field(description=SUMMARY_FIELDS["important_discoveries"])
    """What was found out, decided and tried."""

    next_steps: str = Field(description=SUMMARY_FIELDS["next_steps"])
    """What is to be done next."""

    context_to_preserve: str = Field(description=SUMMARY_FIELDS["context_to_preserve"])
    """Preferences, details and promises that must not be lost."""


class SummaryGenerator:
    """Summarises messages of any size into the fields of a schema, by a model of AgentScope's.

    Args:
        model: The model that writes the summary.
        config: Prompt, template, schema and, where it is ctxkit's own `ContextConfig`, limits; AgentScope's defaults where
            unset.
    """

    def __init__(self, model: ChatModelBase, config: HostContextConfig | None = None) -> None:
        self._model = model
        self._settings = settings_of(config or HostContextConfig())

    async def generate(
        self, messages: Sequence[Msg], *, previous: str = "", instructions: str | None = None
    ) -> Mapping[str, Any]:
        """Return the fields of a summary; a history that no single call can take is summarised in stages.

        Args:
            messages: What to summarise, oldest first.
            previous: The summary of what came before.
            instructions: What the summary must look after.

        Returns:
            The fields, valid by the schema: by default `task_overview`, `current_state`, `important_discoveries`,
            `next_steps` and `context_to_preserve`.

        Raises:
            SummaryError: The model gave no valid summary.
        """
        counter = await load_counter()

        async def count(text: str) -> int:
            return await count_text(text, counter)

        summarizer = Summarizer(
            HostModel(self._model),
            HostCodec(),
            schema=self._settings.summary_schema,
            prompt=self._settings.compression_prompt,
            config=self._settings.summary,
            count=count,
            redactor=redactor_of(self._settings.privacy),
        )
        return await summarizer.summarize(messages, previous=previous, instructions=instructions)

    def render(self, fields: Mapping[str, Any]) -> str:
        """Return the fields in the config's template, as they stand in a context."""
        return self._settings.summary_template.format(**fields)
