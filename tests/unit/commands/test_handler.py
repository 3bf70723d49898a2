"""Commands are answered, whatever is typed and whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.commands import COMMANDS, Change, CommandHandler, Given
from ctxkit.engine import Engine
from ctxkit.errors import ConfigError
from ctxkit.offload import MemoryStore, OffloadGuard, StoreOffloader
from ctxkit.tokens import ByteCounter
from tests.unit.fakes import FakeCodec, FakePort, agent, settings, step, user
from tests.unit.summary.fakes import FakeModel

pytestmark = pytest.mark.asyncio


@dataclass
class FakeAgent:
    """An agent whose settings are all given as the default, and whose engine is what it is told to be."""

    made: Engine | Exception | None = None
    is_replying: bool = False
    name: str = "agent"
    changes: dict[str, Change] = field(default_factory=dict)

    def change(self, changes: Any) -> None:
        self.changes = dict(changes)

    def given(self, setting: str) -> Given | None:
        return None if setting.startswith(("session.", "locks.", "retention.")) else Given(value=None, is_set=False)

    def settings(self) -> Any:
        return settings()

    async def engine(self) -> Engine:
        if isinstance(self.made, Engine):
            return self.made
        raise self.made or ConfigError("there is no engine")

    async def remember(self) -> bool:
        return False


def an_engine() -> Engine:
    context = [user("First?"), agent(*step("a"), "One."), user("Second?"), agent(*step("b"), "Two.")]
    port, codec = FakePort(model=FakeModel(plain=[], context_size=8_000), context=context), FakeCodec()
    guard = OffloadGuard(StoreOffloader(MemoryStore(), codec), codec=codec, timeout_s=5)
    return Engine(port, codec, counter=ByteCounter(), guard=guard)


async def test_what_a_command_lacks_is_its_answer():
    assert await CommandHandler(FakeAgent()).answer("/context") == "there is no engine"


async def test_what_nobody_foresaw_is_answered_and_logged(caplog):
    caplog.set_level(logging.ERROR)
    answer = await CommandHandler(FakeAgent(RuntimeError("the wheel is off"))).answer("/compact")
    assert "RuntimeError: the wheel is off" in answer
    assert "/compact" in caplog.text


async def test_a_cancellation_leaves():
    class Hanging(FakeAgent):
        async def engine(self) -> Engine:
            await asyncio.Event().wait()
            raise AssertionError

    task = asyncio.create_task(CommandHandler(Hanging()).answer("/context"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_only_the_commands_that_are_wanted_are_answered():
    handler = CommandHandler(FakeAgent(), commands=["config"])
    assert await handler.answer("/context") is None
    assert await handler.answer("/config") is not None


@pytest.mark.parametrize("text", ["/context clear", "/compact", "/compact this", "/undo", "/pin it", "/config a b"])
async def test_what_changes_something_is_refused_while_a_reply_runs(text):
    handler = CommandHandler(FakeAgent(is_replying=True))
    assert handler.changes_something(text)
    assert "A reply runs" in await handler.answer(text)


@pytest.mark.parametrize(
    "text", ["/context", "/context detail", "/config", "/config a", "/pin", "/preview", "/explain a"]
)
async def test_what_only_looks_is_answered_while_a_reply_runs(text):
    handler = CommandHandler(FakeAgent(an_engine(), is_replying=True))
    assert not handler.changes_something(text)
    assert "A reply runs" not in await handler.answer(text)


async def test_a_setting_that_belongs_to_the_program_is_not_changed():
    made = FakeAgent()
    assert "belongs to the program" in await CommandHandler(made).answer("/config session.max_turns 5")
    assert made.changes == {}


async def test_of_a_key_that_stands_for_more_only_what_the_agent_has_is_changed():
    made = FakeAgent()
    await CommandHandler(made).answer("/config agent_max_context_turns 30")
    assert made.changes == {"triggers.max_turns": Change(value=30, by="agent_max_context_turns")}


async def test_a_program_says_what_a_chat_may_not_change():
    made = FakeAgent()
    handler = CommandHandler(made, locked={"triggers", "agent_max_steps"})
    for text in ("/config triggers.max_turns 5", "/config agent_max_context_turns 5", "/config agent_max_steps 5"):
        assert "cannot be changed in a chat" in await handler.answer(text)
    assert "is off now" in await CommandHandler(made, locked=()).answer("/config privacy.redact off")


TYPED = st.one_of(
    st.text(), st.builds(lambda name, rest: f"/{name} {rest}", st.sampled_from(COMMANDS), st.text(max_size=40))
)


@given(TYPED)
async def test_any_text_gives_an_answer_or_is_left_to_the_agent(text):
    handler = CommandHandler(FakeAgent())
    answer = await handler.answer(text)
    assert handler.is_command(text) == (answer is not None)
    assert answer is None or answer.strip()


async def test_each_command_is_explained():
    text = await CommandHandler(FakeAgent()).answer("/context help")
    assert all(f"/{name}" in text for name in COMMANDS)
