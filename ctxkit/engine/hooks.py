"""A user's own code before and after a compression: it is told with a frozen record, and can stop nothing."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctxkit import telemetry
from ctxkit.plan import Plan
from ctxkit.strategies.ladder import freed_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentscope.message import Msg

    from ctxkit.engine.run import Run
    from ctxkit.plan import Edit, Reason, Receipt

logger = logging.getLogger("ctxkit")


@dataclass(frozen=True, kw_only=True)
class BeforeCompression:
    """What is known when a compression begins: nothing is stored yet, and no model is asked."""

    session_id: str
    agent: str
    """The agent's name."""
    reason: Reason
    plan: Plan
    """What is to be done; more may be shortened where the summary takes more room than was foreseen."""
    tokens_before: int
    """Estimated tokens of the whole request."""
    messages_before: int
    """Messages in the context."""


@dataclass(frozen=True, kw_only=True)
class AfterCompression:
    """What came of a compression, well or not."""

    session_id: str
    agent: str
    """The agent's name."""
    receipt: Receipt
    tokens_before: int
    """Estimated tokens of the whole request before."""
    tokens_after: int
    """Estimated tokens of the whole request now; as before where the compression failed."""
    messages_before: int
    """Messages in the context before."""
    messages_after: int
    """Messages in the context now, those counted that came meanwhile."""
    taken: Sequence[Msg] = ()
    """The messages that left the context, whole or in part, oldest first; empty where the compression failed."""
    keys: tuple[str, ...] = ()
    """Keys of their records in the agent's store; empty where they are not there."""


class Hooks:
    """Calls the hooks of one run: those after it only where those before it were called.

    Args:
        run: The run; it has measured when the first hook is called.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._messages_before: int | None = None

    async def before(self, edits: Sequence[Edit]) -> None:
        """Tell what is about to be done.

        Args:
            edits: As they were chosen; what they store and what stands there afterwards is not made yet.
        """
        run, port = self._run, self._run.kit.port
        self._messages_before = len(run.situation.view)
        plan = Plan(
            id=run.plan_id,
            reason=run.reason,
            edits=tuple(edits),
            tokens_before=run.tokens_before,
            tokens_after=round(run.tokens_before - freed_tokens(run.situation, edits)),
        )
        record = BeforeCompression(
            session_id=port.session_id,
            agent=port.name,
            reason=run.reason,
            plan=plan,
            tokens_before=run.tokens_before,
            messages_before=self._messages_before,
        )
        await self._call(run.settings.hooks.before_compression, record)

    async def after(self, receipt: Receipt) -> None:
        """Tell what came of it."""
        run, port = self._run, self._run.kit.port
        if self._messages_before is None:
            return
        record = AfterCompression(
            session_id=port.session_id,
            agent=port.name,
            receipt=receipt,
            tokens_before=receipt.tokens_before,
            tokens_after=receipt.tokens_after,
            messages_before=self._messages_before,
            messages_after=len(port.context),
            taken=run.taken,
            keys=run.keys if run.taken else (),
        )
        await self._call((*run.settings.hooks.after_compression, *run.kit.listeners), record)

    async def _call(self, hooks: Sequence[Callable[..., Any]], record: BeforeCompression | AfterCompression) -> None:
        for hook in hooks:
            try:
                answer = hook(record)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as exc:
                name = str(getattr(hook, "__qualname__", type(hook).__qualname__))
                logger.exception("the hook %r raised; the compression goes on", name)
                await self._run.tell(telemetry.HOOK_FAILED, hook=name, problem=f"{type(exc).__name__}: {exc}")
