"""AgentScope's own service assembling an agent with our middleware for each turn (row X19)."""

from typing import Literal

import pytest
from agentscope.credential import CredentialBase
from agentscope.tool import FunctionTool

from ctxkit import CompressionMiddleware, ContextEvent, FileStore
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import applied, fetch, fetches, number_of, orphans, text_of, user

for needed in ("aiosqlite", "greenlet", "sqlalchemy"):
    pytest.importorskip(needed, reason="not installed: pip install agentscope[service] aiosqlite sqlalchemy[asyncio]")
app_module = pytest.importorskip("agentscope.app", reason="the service is not installed", exc_type=ImportError)
storage_module = pytest.importorskip(
    "agentscope.app.storage._sql", reason="this service has no SQL", exc_type=ImportError
)

WINDOW = 16384
TURNS = 4
models: list[ScriptedModel] = []
script: list = []


class ServiceModel(ScriptedModel):
    """What the service makes of its records: each turn a new model that goes on with the script."""

    def __init__(self, credential, model, parameters=None, **kwargs):
        super().__init__(iter(lambda: script.pop(0) if script else "done", None), context_size=WINDOW, enforce="cl100k")
        models.append(self)


class ServiceCredential(CredentialBase):
    type: Literal["ctxkit_service_test"] = "ctxkit_service_test"

    @classmethod
    def get_chat_model_class(cls):
        return ServiceModel


@pytest.mark.asyncio
@pytest.mark.row("X19")
@pytest.mark.may_block("the service and its storage block")
@pytest.mark.filterwarnings("default")
async def test_the_service_runs_turn_after_turn_with_compressions_and_recall(tmp_path):
    from agentscope.app.message_bus import InMemoryMessageBus
    from agentscope.app.storage import AgentData, AgentRecord, ChatModelConfig, SessionConfig
    from agentscope.app.workspace_manager import LocalWorkspaceManager

    models.clear()
    made: list[CompressionMiddleware] = []
    agents, events = [], []

    class Seen(CompressionMiddleware):
        async def on_reply(self, agent, input_kwargs, next_handler):
            agents.append(agent)
            async for item in super().on_reply(agent, input_kwargs, next_handler):
                events.append(item)
                yield item

    async def factory(user_id, agent_id, session_id):
        made.append(Seen(local_store=FileStore(str(tmp_path / "ctxkit"))))
        return [made[-1]]

    async def tools(user_id, agent_id, session_id):
        return [FunctionTool(fetch, is_read_only=True)]

    storage = storage_module.AsyncSQLAlchemyStorage(f"sqlite+aiosqlite:///{tmp_path}/service.db")
    app = app_module.create_app(
        storage=storage,
        message_bus=InMemoryMessageBus(),
        workspace_manager=LocalWorkspaceManager(str(tmp_path / "workspaces")),
        extra_credentials=[ServiceCredential],
        extra_agent_middlewares=factory,
        extra_agent_tools=tools,
        enable_channel_worker=False,
        enable_scheduler=False,
        enable_index_worker=False,
    )
    async with app.router.lifespan_context(app):
        credential = await storage.upsert_credential("ada", ServiceCredential(name="test"))
        record = AgentRecord(user_id="ada", data=AgentData(name="scribe", system_prompt="You look things up."))
        await storage.upsert_agent("ada", record)
        config = SessionConfig(
            workspace_id="w1",
            chat_model_config=ChatModelConfig(
                type="ctxkit_service_test", credential_id=credential, model="scripted", parameters={}
            ),
        )
        session = await storage.upsert_session("ada", record.id, config)
        for turn in range(TURNS):
            script[:] = [*fetches(30, prefix=f"turn-{turn}"), f"Turn {turn} is done."]
            if turn == TURNS - 1:
                script[0:0] = [call("search_context", query=number_of("turn-0-3"))]
            await app.state.chat_service.run("ada", session.id, record.id, user(f"Please do turn {turn}."))
        state = (await storage.get_session("ada", record.id, session.id)).state

    chats = [request for model in models for request in model.chats]
    assert len(made) >= TURNS
    assert sum(len(applied(agent)) for agent in agents) >= 3
    assert not any(request.refused for request in chats)
    assert all(orphans(request.messages) == [] for request in chats)
    assert any(isinstance(event, ContextEvent) for event in events)
    assert f"its number is {number_of('turn-0-3')}" in text_of(m for r in models[-1].chats for m in r.messages)
    assert "Turn 3 is done." in text_of(state.context)
    assert set(state.middle_context["ctxkit"]) >= {"meter", "summary"}
