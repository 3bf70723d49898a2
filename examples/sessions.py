"""An agent goes on where another one ended: what was said and done is saved after each reply."""

import asyncio
import tempfile
from pathlib import Path

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from ctxkit import CompressionMiddleware, Retention, SessionMiddleware, SqliteSessionStore
from ctxkit.testing import ScriptedModel, call


def stock_of(article: str) -> str:
    """Return how many pieces of an article are in stock.

    Args:
        article (str): The article.
    """
    return f"{article}: 17 pieces in rack 4."


def make_agent(session: SessionMiddleware, script: list) -> Agent:
    """Return the agent as a process makes it at its start: it knows nothing but the id of its session."""
    return Agent(
        name="clerk",
        system_prompt="You look after a warehouse.",
        model=ScriptedModel(script),
        toolkit=Toolkit(tools=[FunctionTool(stock_of, is_read_only=True)]),
        middlewares=[session, CompressionMiddleware()],  # the session first: it is the outermost
        state=AgentState(session_id="customer-4711"),
    )


async def main() -> None:
    """Reply once, start anew, and reply again."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteSessionStore(Path(folder, "sessions.db"))
        async with SessionMiddleware(store, retention=Retention(mode="warn")) as session:
            script = [call("stock_of", article="bolts"), "There are 17 in rack 4."]
            await make_agent(session, script).reply(UserMsg("user", "How many bolts are there?"))

        # Here the process may end, or be killed.

        store = SqliteSessionStore(Path(folder, "sessions.db"))
        async with SessionMiddleware(store) as session:
            clerk = make_agent(session, ["In rack 4, as I said."])
            restored = await session.attach(clerk)  # without this line the first reply does it
            print("Restored:", restored)
            answer = await clerk.reply(UserMsg("user", "And where?"))
            print("Answer:", answer.get_text_content())
            async for row in store.list():
                print("Saved:", row.session_id, "with", row.total_tokens, "of", row.context_tokens, "tokens")


if __name__ == "__main__":
    asyncio.run(main())
