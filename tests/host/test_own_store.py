"""An agent on a back end of a user's own, one that `StoreSuite` has found sound (row X15)."""

import importlib.util
from pathlib import Path

import pytest

from ctxkit import HostCodec, StoreOffloader
from ctxkit.testing import ScriptedModel, StoreSuite, call
from tests.host.agents import applied, events_of, fetches, make_agent, number_of, text_of, user

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_store.py"


@pytest.fixture(scope="module")
def own_store():
    spec = importlib.util.spec_from_file_location("own_store", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.asyncio
@pytest.mark.row("X15")
async def test_an_agent_reads_back_from_a_store_that_passes_the_suite(own_store, tmp_path):
    assert issubclass(own_store.TestSqliteStore, StoreSuite)
    store = own_store.TestSqliteStore().open_store(tmp_path)
    script = [*fetches(12), call("search_context", query=number_of("topic-0")), "done"]
    model = ScriptedModel(script, context_size=6000, enforce="cl100k")
    agent = make_agent(model, offloader=StoreOffloader(store, HostCodec()))
    await events_of(agent.reply_stream(user("Look up twelve topics.")))

    assert applied(agent)
    found = agent.state.context[-1].get_content_blocks("tool_result")[-1]
    assert found.name == "search_context"
    assert number_of("topic-0") in text_of(agent.state.context)
    again = own_store.TestSqliteStore().open_store(tmp_path)
    kept = [await again.get(e.reference, e.offset, e.size) async for e in again.list(agent.state.session_id)]
    assert any(number_of("topic-0").encode() in body for body in kept)
    await store.aclose()
    await again.aclose()
