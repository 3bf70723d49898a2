"""The host's public hooks only, on every supported version: canaries for what is not public (row X19)."""

import ast
import inspect
from pathlib import Path

import agentscope.agent
import pytest
from agentscope.agent import Agent
from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.message import AssistantMsg, Msg, Usage
from agentscope.middleware import MiddlewareBase
from agentscope.workspace import LocalWorkspace as HostWorkspace

import ctxkit
from ctxkit import CompressionMiddleware, ContextConfig
from ctxkit.host import _compat
from ctxkit.port import Usage as CallUsage
from ctxkit.testing import ScriptedModel
from tests.host.agents import fetches, history, make_agent, memory_offloader, text_of, user

pytestmark = pytest.mark.row("X19")

PRIVATE = {"_prepare_model_input", "_backend", "_reply_middlewares"}
"""The private names of the host that ctxkit uses, each with a canary below."""
ROOM = Path(ctxkit.__file__).parent / "host"


# Canaries


@pytest.mark.asyncio
async def test_the_prepared_request_is_the_one_that_the_host_sends():
    class Look(MiddlewareBase):
        async def on_system_prompt(self, agent, current_prompt):
            return f"{current_prompt} Mind the gap."

        async def on_model_call(self, agent, input_kwargs, next_handler):
            sent.append((input_kwargs["messages"], input_kwargs["tools"]))
            prepared.append(await _compat.prepare_request(agent))
            return await next_handler()

    sent, prepared = [], []
    agent = make_agent(ScriptedModel([*fetches(2), "done"]), middlewares=[Look()])
    agent.state.summary = "What was before."

    await agent.reply(user("Look up two topics."))

    assert len(sent) == 3
    for (messages, tools), (our_messages, our_tools) in zip(sent, prepared, strict=True):
        assert [text_of([m]) for m in our_messages] == [text_of([m]) for m in messages]
        assert our_tools == tools


def test_the_prepared_request_takes_no_argument():
    assert list(inspect.signature(Agent._prepare_model_input).parameters) == ["self"]
    assert inspect.iscoroutinefunction(Agent._prepare_model_input)


def test_an_agents_middlewares_are_known_in_order():
    class First(CompressionMiddleware):
        pass

    given = [First(), CompressionMiddleware()]

    assert list(_compat.middlewares_of(make_agent(ScriptedModel(), middlewares=given))) == given


def test_the_hosts_workspace_has_a_backend_that_deletes(tmp_path):
    backend = HostWorkspace(workdir=str(tmp_path))._backend

    assert inspect.iscoroutinefunction(backend.delete_path)


def test_no_other_private_name_of_the_host_is_used():
    used = set()
    for path in ROOM.glob("*.py"):
        tree = ast.parse(path.read_text())
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                base = node.value.id if isinstance(node.value, ast.Name) else ""
                if base not in {"self", "cls"} and node.attr not in own:
                    used.add(node.attr)

    assert used <= PRIVATE


def test_no_private_module_of_the_host_is_imported():
    imported = set()
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentscope"):
                imported.update(f"{node.module}.{alias.name}" for alias in node.names)

    assert imported
    assert [name for name in imported if any(part.startswith("_") for part in name.split("."))] == []


# Hooks only


@pytest.mark.asyncio
async def test_neither_the_agents_class_nor_its_methods_are_changed():
    classes = [Agent, type(ScriptedModel()), MiddlewareBase, Msg]
    before = [dict(vars(kind)) for kind in classes]
    agent = make_agent(ScriptedModel([*fetches(30), "done"], context_size=8192), offloader=memory_offloader())
    attributes, model_attributes = set(vars(agent)), set(vars(agent.model))

    await agent.reply(user("Look up thirty topics."))
    await agent.compress_context()

    assert [dict(vars(kind)) for kind in classes] == before
    assert set(vars(agent)) == attributes
    assert set(vars(agent.model)) == model_attributes
    assert not any(callable(value) and name in vars(Agent) for name, value in vars(agent).items())


def test_every_hook_has_the_hosts_signature():
    hooks = [name for name in vars(CompressionMiddleware) if name in vars(MiddlewareBase) and not name.startswith("__")]

    assert {"on_reply", "on_reasoning", "on_acting", "on_model_call", "on_compress_context", "list_tools"} <= set(hooks)
    for name in hooks:
        ours, hosts = getattr(CompressionMiddleware, name), getattr(MiddlewareBase, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(hosts).parameters), name
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(hosts) or inspect.isasyncgenfunction(ours), name  # fmt: skip


def test_every_hook_is_seen_by_the_host():
    middleware = CompressionMiddleware()

    for hook in ("on_reply", "on_reasoning", "on_acting", "on_model_call", "on_compress_context"):
        assert middleware.is_implemented(hook)
    assert not middleware.is_implemented("on_system_prompt")


# Versions


def test_supplied_fields_have_the_hosts_defaults_and_bounds_where_the_host_has_them():
    for name, (kind, field) in _compat._NEWER_FIELDS.items():
        hosts = HostContextConfig.model_fields.get(name)
        if hosts is not None:
            assert (hosts.annotation, hosts.default) == (kind, field.default)
            assert sorted(map(repr, hosts.metadata)) == sorted(map(repr, field.metadata))


def test_an_agent_of_any_supported_version_takes_the_whole_config():
    config = ContextConfig(max_image_num=3, compression_fallback_to_truncation=False)

    agent = make_agent(ScriptedModel(), config=config)

    assert isinstance(agent.context_config, agentscope.agent.ContextConfig)
    assert agent.context_config.max_image_num == 3


def test_usage_is_added_in_the_fields_that_the_host_has():
    message = AssistantMsg(name="scribe", content="hello")
    call = CallUsage(input_tokens=100, output_tokens=20, cache_read_tokens=30, cache_write_tokens=5)

    _compat.add_usage(message, call)
    _compat.add_usage(message, call)

    assert (message.usage.input_tokens, message.usage.output_tokens) == (200, 40)
    assert getattr(message.usage, "cache_input_tokens", 60) == 60
    assert type(message.usage) is Usage


@pytest.mark.asyncio
async def test_a_reply_with_compressions_runs_on_this_version():
    agent = make_agent(
        ScriptedModel([*fetches(30), "done"], context_size=8192, enforce="cl100k", stream=True),
        offloader=memory_offloader(),
    )
    agent.state.context.extend(history(5))

    reply = await agent.reply(user("Look up thirty topics."))

    assert reply.get_text_content().endswith("done")
    assert not any(request.refused for request in agent.model.requests)
