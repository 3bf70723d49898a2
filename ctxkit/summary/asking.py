"""Asks a model for summary fields: retried, repaired once, never past the deadline, tools never run."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from ctxkit.config import SummaryConfig
from ctxkit.ledger import Count, clipped
from ctxkit.overflow import recognise
from ctxkit.port import Answer, Codec, ModelPort, Usage
from ctxkit.summary.answer import check_fields, parse_answer
from ctxkit.summary.prompt import repair_text

if TYPE_CHECKING:
    from agentscope.message import Msg

_STOP_GRACE_S: Final = 2.0
"""Seconds that a call may take to end after it was cancelled; then it is left to itself."""

_PASSING_STATUS: Final = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 that may pass: time-out, conflict, too early, too many requests."""

_SERVER_STATUS: Final = 500

_SANE_CHARS: Final = 6
"""Characters for each token that an answer may have; one that has more is hardly shown again."""


class OutOfTimeError(Exception):
    """The deadline of a summary has come; it stays in this room."""


class Asker:
    """Asks one model for one summary, by as many calls as it takes; gathers what they cost and what failed.

    Args:
        model: The model.
        codec: Builds the messages of a repair.
        schema: The JSON schema of the fields.
        config: Deadline and retries.
        max_tokens: Most tokens of the fields.
        count: Returns the tokens of a text.
        parse: Returns the fields of a plain answer, or why there are none; by default those of its JSON object.
        repair: Returns the request for a corrected answer, from what is wrong with one; by default for a JSON object.
    """

    def __init__(
        self,
        model: ModelPort,
        codec: Codec,
        *,
        schema: Mapping[str, Any],
        config: SummaryConfig,
        max_tokens: int,
        count: Count,
        parse: Callable[[str], Mapping[str, Any] | str] | None = None,
        repair: Callable[[str], str] | None = None,
    ) -> None:
        self._parse = parse or partial(parse_answer, schema=schema)
        self._repair = repair or partial(repair_text, schema=schema)
        self.failures: list[str] = []
        self.usage: Usage | None = None
        self.has_overflowed = False
        """Whether a provider said that a request was larger than its window."""
        self._model = model
        self._codec = codec
        self._schema = schema
        self._config = config
        self._max_tokens = max_tokens
        self._count = count
        self._deadline = asyncio.get_running_loop().time() + config.timeout_s

    async def ask(
        self,
        messages: "Sequence[Msg]",
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        tool_choice: object | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any] | None:
        """Return valid fields from a plain call, or None; why not is in `failures`.

        A tool call in the answer is refused and asked again with tools forbidden; an answer that is no summary is
        repaired once, with what is wrong with it.
        """
        answer = await self._plain(messages, tools, tool_choice=tool_choice, options=options)
        forbid = False
        if answer is not None and answer.tool_calls:
            self.failures.append(f"the model called {', '.join(answer.tool_calls)[:100]} instead of answering")
            forbid = True
            answer = await self._plain(messages, tools, forbid_tools=True, options=options)
        if answer is None:
            return None
        fields = await self._checked(answer)
        if not isinstance(fields, str):
            return fields
        self.failures.append(fields)
        # A rambling answer would make the request for a better one too large.
        text = answer.text if len(answer.text) <= _SANE_CHARS * self._max_tokens else clipped(answer.text)
        said = [self._codec.assistant_message([self._codec.text(text)], name="assistant")]
        wanted = self._codec.user_message(self._repair(fields))
        again = [*messages, *(said if answer.text.strip() else []), wanted]
        choice = None if forbid else tool_choice
        answer = await self._plain(again, tools, tool_choice=choice, forbid_tools=forbid, options=options)
        if answer is None:
            return None
        fields = await self._checked(answer)
        if isinstance(fields, str):
            self.failures.append(fields)
            return None
        return fields

    async def ask_structured(self, messages: "Sequence[Msg]") -> Mapping[str, Any] | None:
        """Return valid fields from the host's structured output, or None; why not is in `failures`."""
        answer = await self._tried(lambda: self._model.structured(messages, self._schema))
        if answer is None:
            return None
        fields = await self._fields_or_reason(answer.content)
        if isinstance(fields, str):
            self.failures.append(fields)
            return None
        return fields

    async def _plain(
        self,
        messages: "Sequence[Msg]",
        tools: Sequence[Mapping[str, Any]],
        *,
        tool_choice: object | None = None,
        forbid_tools: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Answer | None:
        return await self._tried(
            lambda: self._model.call(
                messages, tools, tool_choice=tool_choice, forbid_tools=forbid_tools, options=options
            )
        )

    async def _checked(self, answer: Answer) -> Mapping[str, Any] | str:
        if answer.tool_calls:
            return f"the model called {', '.join(answer.tool_calls)[:100]} although no tool may be called."
        return await self._fields_or_reason(self._parse(answer.text))

    async def _fields_or_reason(self, parsed: object) -> Mapping[str, Any] | str:
        if isinstance(parsed, str):
            return parsed
        return await check_fields(parsed, self._schema, max_tokens=self._max_tokens, count=self._count)

    async def _tried(self, call: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer | None:
        """Return the answer of a call that is tried again where its failure may pass, or None."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._config.attempts),
            wait=wait_exponential(multiplier=self._config.retry_delay_s, max=self._longest_wait()),
            retry=retry_if_exception(_may_pass),
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            answer: Answer = await retrying(self._before_deadline, call)
        except Exception as exc:  # noqa: BLE001 - whatever a model class raises, a summary without it is made
            self.has_overflowed = self.has_overflowed or recognise(exc) is not None
            self.failures.append(clipped(f"{type(exc).__name__}: {exc}"))
            return None
        self._add(answer.usage)
        if answer.interrupted:
            self.failures.append("the call was interrupted")
            return None
        return answer

    async def _before_deadline(self, call: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Await a call as a task of our own: a time-out thrown into it would come back as an answer.

        AgentScope's models swallow a cancellation and return what they have as an interrupted answer, so
        `asyncio.timeout` round the call never fires. A cancellation from outside stops the call and leaves.
        """
        left = self._left()
        if left <= 0:
            raise OutOfTimeError(self._out_of_time())
        task = asyncio.create_task(call(), name="ctxkit-summary-call")
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            await _stop(task)
            raise
        if not task.done():
            await _stop(task)
            raise OutOfTimeError(self._out_of_time())
        if task.cancelled():
            msg = "the model cancelled its own call"
            raise RuntimeError(msg)
        return task.result()

    def _longest_wait(self) -> float:
        return max(0.0, min(self._left(), self._config.retry_delay_max_s))

    def _left(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()

    def _out_of_time(self) -> str:
        return f"no summary within {self._config.timeout_s:g} s (SummaryConfig.timeout_s)"

    def _add(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


async def _stop(task: "asyncio.Task[Answer]") -> None:
    """Cancel a task and wait until it has ended; what it still returns or raises is of no interest."""
    task.add_done_callback(_forget)
    task.cancel()
    await asyncio.wait({task}, timeout=_STOP_GRACE_S)


def _forget(task: "asyncio.Task[Answer]") -> None:
    if not task.cancelled():
        task.exception()


def _may_pass(error: BaseException) -> bool:
    """Return whether the same request may do better a moment later."""
    if isinstance(error, OutOfTimeError | TypeError | AttributeError | LookupError | NotImplementedError):
        return False
    if not isinstance(error, Exception) or recognise(error) is not None:
        return False
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status >= _SERVER_STATUS or status in _PASSING_STATUS
