"""In AgentScope's service, which saves sessions itself, SessionMiddleware does nothing (row X19)."""

import logging
from typing import Literal

import pytest
from agentscope.credential import CredentialBase

from ctxkit import CompressionMiddleware, SessionMiddleware
from ctxkit.sessions import MemorySessionStore
from ctxkit.testing import ScriptedModel
from tests.host.agents import text_of, user

for needed in ("aiosqlite", "greenlet", "sqlalchemy"):
    pytest.importorskip(needed, reason="not installed: pip install agentscope[service] aiosqlite sqlalchemy[asyncio]")
app_module = pytest.importorskip("agentscope.app", reason="the service is not installed", exc_type=ImportError)
storage_module = pytest.importorskip(
    "agentscope.app.storage._sql", reason="this service has no SQL", exc_type=ImportError
)


class SavedServiceModel(ScriptedModel):
    """A model as the service makes it of its records."""

    def __init__(self, credential, model, parameters=None, **kwargs):
        super().__init__(after="Noted.")


class SavedServiceCredential(CredentialBase):
    type: Literal["ctxkit_saved_service_test"] = "ctxkit_saved_service_test"

    @classmethod
    def get_chat_model_class(cls):
        return SavedServiceModel


@pytest.mark.asyncio
@pytest.mark.row("X19")
@pytest.mark.may_block("the service and its storage block")
@pytest.mark.filterwarnings("default")
async def test_the_service_saves_its_sessions_alone(tmp_path, caplog):
    from agentscope.app.message_bus import InMemoryMessageBus
    from agentscope.app.storage import AgentData, AgentRecord, ChatModelConfig, SessionConfig
    from agentscope.app.workspace_manager import LocalWorkspaceManager

    store = MemorySessionStore()

    async def factory(user_id, agent_id, session_id):
        return [SessionMiddleware(store), CompressionMiddleware()]

    storage = storage_module.AsyncSQLAlchemyStorage(f"sqlite+aiosqlite:///{tmp_path}/service.db")
    app = app_module.create_app(
        storage=storage,
        message_bus=InMemoryMessageBus(),
        workspace_manager=LocalWorkspaceManager(str(tmp_path / "workspaces")),
        extra_credentials=[SavedServiceCredential],
        extra_agent_middlewares=factory,
        enable_channel_worker=False,
        enable_scheduler=False,
        enable_index_worker=False,
    )
    async with app.router.lifespan_context(app):
        credential = await storage.upsert_credential("ada", SavedServiceCredential(name="test"))
        record = AgentRecord(user_id="ada", data=AgentData(name="scribe", system_prompt="You take notes."))
        await storage.upsert_agent("ada", record)
        config = SessionConfig(
            workspace_id="w1",
            chat_model_config=ChatModelConfig(
                type="ctxkit_saved_service_test", credential_id=credential, model="scripted", parameters={}
            ),
        )
        session = await storage.upsert_session("ada", record.id, config)
        with caplog.at_level(logging.WARNING, "ctxkit"):
            for turn in range(2):
                await app.state.chat_service.run("ada", session.id, record.id, user(f"Turn {turn}."))
        state = (await storage.get_session("ada", record.id, session.id)).state

    assert [row async for row in store.list()] == []
    assert text_of(state.context).count("Turn 0.") == text_of(state.context).count("Turn 1.") == 1
    said = [record.message for record in caplog.records if record.name == "ctxkit.sessions"]
    assert (
        said
        == ["the session of agent 'scribe' is not saved: it runs in AgentScope's service, which saves it itself"] * 2
    )
