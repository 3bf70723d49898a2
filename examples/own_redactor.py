"""Keep secrets from the disk: ctxkit's rules, one of your own beside them, and what they found."""

import asyncio
import tempfile
from pathlib import Path

from agentscope.agent import Agent
from agentscope.message import UserMsg

from ctxkit import CompressionMiddleware, ContextConfig, LocalWorkspace, PrivacyConfig, SecretRedactor
from ctxkit.offload.redact import RULES, Rule
from ctxkit.testing import ScriptedModel

BADGE = Rule(kind="badge", literals=("BADGE-",), pattern=r"BADGE-[0-9]{6,}")
"""A rule is a literal to look for and a pattern that matches from there on."""


def stored_in(folder: str) -> str:
    """Return what became of the secrets in the log."""
    log = next(Path(folder).rglob("context.jsonl")).read_text(encoding="utf-8")
    return log[log.index("My badge") : log.index("/main")]


async def main() -> None:
    """Tell an agent two secrets, let them leave its context, and look at what is stored."""
    redactor = SecretRedactor((*RULES, BADGE))
    with tempfile.TemporaryDirectory() as folder:
        compression = CompressionMiddleware()
        agent = Agent(
            name="clerk",
            system_prompt="You take notes.",
            model=ScriptedModel(["Noted.", "Bye."]),
            context_config=ContextConfig(privacy=PrivacyConfig(redactor=redactor)),
            offloader=LocalWorkspace(workdir=folder, redactor=redactor),
            middlewares=[compression],
        )
        secrets = "My badge is BADGE-4711001, the database postgres://app:h0rse-b4ttery@db/main."
        await agent.reply(UserMsg("user", secrets + " And now the minutes. " + "Nothing was decided. " * 1000))
        await agent.reply(UserMsg("user", "That is all."))
        await compression.compact(agent)
        print("stored:", await asyncio.to_thread(stored_in, folder))
    print("found:", dict(redactor.counts))


if __name__ == "__main__":
    asyncio.run(main())
