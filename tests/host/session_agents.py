"""Agents whose sessions are saved, and what tests ask of what was saved."""

import asyncio

from agentscope.agent import Agent, InjectionConfig
from agentscope.state import AgentState
from agentscope.tool import FunctionTool

from ctxkit import CompressionMiddleware, SessionMiddleware
from ctxkit.sessions import SessionLocks
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import events_of, make_agent, user

QUIET = InjectionConfig(inject_runtime_state=False)


def scribe(
    session: SessionMiddleware, script, *, session_id: str = "s-1", state: AgentState | None = None, **kwargs
) -> Agent:
    """Return a new agent of a session, as a new process would make it."""
    return make_agent(
        ScriptedModel(script, **({"context_size": kwargs.pop("window")} if "window" in kwargs else {})),
        middlewares=kwargs.pop("middlewares", None) or [session, CompressionMiddleware()],
        state=state or AgentState(session_id=session_id),
        injection_config=QUIET,
        **kwargs,
    )


def plain(agent: Agent) -> dict:
    return agent.state.model_dump(mode="json")


async def saved_state(store, session_id: str = "s-1") -> AgentState:
    """Return what is saved, loaded by AgentScope alone."""
    saved = await store.load(session_id)
    return AgentState.model_validate(saved.state)


async def row_of(store, session_id: str = "s-1"):
    return next(iter([row async for row in store.list() if row.session_id == session_id]), None)


def careful() -> FunctionTool:
    """Return a tool for which a person is asked."""

    def transfer(amount: int) -> str:
        """Transfer money.

        Args:
            amount (int): How much.
        """
        return f"Transferred {amount}."

    return FunctionTool(transfer)


async def parked(session: SessionMiddleware) -> tuple[Agent, list]:
    """Return an agent that waits for a person, and the events of its reply."""
    agent = scribe(session, [call("transfer", amount=5)], tools=[careful()])
    return agent, await events_of(agent.reply_stream(user("Transfer five.")))


def locks(**kwargs) -> SessionLocks:
    return SessionLocks(**{"timeout_s": 0.2, **kwargs})


class Gate:
    """A tool that waits until it is let through."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    def tool(self) -> FunctionTool:
        async def wait_for_it(topic: str) -> str:
            """Wait.

            Args:
                topic (str): Anything.
            """
            self.reached.set()
            await self.open.wait()
            return f"Waited for {topic}."

        return FunctionTool(wait_for_it, is_read_only=True)
