"""Files of settings, from YAML and JSON to a real agent."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from agentscope.model import DeepSeekChatModel, OpenAIChatModel

from ctxkit import (
    Brain,
    CompressionMiddleware,
    ConfigError,
    ConfigFileError,
    ContextConfig,
    RulesMiddleware,
    load_config_file,
)
from ctxkit.config_file.sections import HOST_FIELDS, SECTIONS
from ctxkit.host._brains import model_of
from ctxkit.host.context_config import _SECTIONS, settings_of
from ctxkit.plan import Reason
from ctxkit.profiles import PROFILES
from ctxkit.testing import ScriptedModel
from tests.host.agents import applied, history, make_agent, memory_offloader, summary_text, text_of, user

DATA = Path(__file__).parents[1] / "data" / "config"


@pytest.fixture
def write(tmp_path):
    def written(text: str, name: str = "app.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.mark.row("D3")
def test_the_documents_complete_example_loads_and_the_agents_own_context_wins_field_by_field():
    config = ContextConfig.from_file(DATA / "digitorn-complete.yaml")
    assert config.window.max_tokens == 0
    assert config.overflow.output_reserve_tokens == 4096
    assert config.ladder.strategy == "summarize"
    assert config.ladder.keep_messages == 6
    assert config.triggers.pressure_ratio == 0.15
    assert config.summary.max_tokens == 512
    assert isinstance(config.summary.model, OpenAIChatModel)
    assert config.summary.model.model == "qwen2.5:3b"
    assert config.summary.model.credential.base_url == "http://localhost:11434/v1"


@pytest.mark.row("D3")
def test_an_agent_without_a_context_of_its_own_has_that_of_the_execution_and_the_documents_defaults(write):
    path = write(
        "execution:\n  context: {strategy: truncate, keep_recent: 8}\n"
        "agents:\n  - id: a\n    brain: {context: {keep_recent: 6, compression_trigger: 0.6}}\n  - id: b\n"
    )
    loaded = load_config_file(path)
    a, b, both = (ContextConfig.from_loaded(loaded.config(name)) for name in ("a", "b", None))
    assert (a.ladder.strategy, a.ladder.keep_messages, a.triggers.pressure_ratio) == ("truncate", 6, 0.6)
    assert (b.ladder.strategy, b.ladder.keep_messages, b.triggers.pressure_ratio) == ("truncate", 8, 0.75)
    assert both == b
    assert b.overflow.output_reserve_tokens == 4096
    assert b.triggers.cooldown_turns == 2


@pytest.mark.row("D3")
@pytest.mark.asyncio
async def test_an_agent_that_a_file_describes_compacts_as_the_file_says(write):
    path = write(
        "execution:\n  context: {max_tokens: 20000, output_reserved: 1000, strategy: truncate, keep_recent: 2,"
        " compression_trigger: 0.2}\n"
    )
    config = await asyncio.to_thread(ContextConfig.from_file, path)
    agent = make_agent(ScriptedModel(["Done."], context_size=64_000), config=config, offloader=memory_offloader())
    agent.state.context.extend(history(8, size=400))
    await agent.reply(user("What now?"))
    (receipt,) = applied(agent)
    assert receipt.reason is Reason.TRIGGER
    assert "truncated" in summary_text(agent)


@pytest.mark.row("D9")
@pytest.mark.row("D3")
@pytest.mark.asyncio
async def test_the_rules_of_a_file_are_carried_out_by_the_middleware(caplog):
    caplog.set_level(logging.INFO)
    loaded = await asyncio.to_thread(lambda: load_config_file(DATA / "digitorn-complete.yaml").config("assistant"))
    config = ContextConfig.from_loaded(loaded, make_model=lambda brain: ScriptedModel(["The summary."]))
    model = ScriptedModel(["Yes."] * 6, context_size=128_000)
    agent = make_agent(model, config=config, middlewares=[RulesMiddleware(loaded.rules), CompressionMiddleware()])
    for turn in range(6):
        await agent.reply(user(f"Turn {turn + 1}."))
    said = [record.getMessage() for record in caplog.records if record.name == "ctxkit.rules"]
    assert [line.split(":")[0] for line in said] == [f"Turn {turn + 1}" for turn in range(6)]
    asked = [text_of(request.messages).count("you have been chatting for 5 turns") for request in model.requests]
    assert asked == [0, 0, 0, 0, 1, 1]


@pytest.mark.row("D9")
@pytest.mark.asyncio
async def test_the_rule_that_auto_compact_injects_summarises_by_the_summary_brain():
    loaded = await asyncio.to_thread(lambda: load_config_file(DATA / "digitorn-complete.yaml").config())
    summariser = ScriptedModel(["The summary."], context_size=128_000)
    config = ContextConfig.from_loaded(loaded, make_model=lambda brain: summariser)
    model = ScriptedModel(["Done."], context_size=16_000)
    agent = make_agent(
        model,
        config=config,
        middlewares=[RulesMiddleware(loaded.rules), CompressionMiddleware()],
        offloader=memory_offloader(),
    )
    agent.state.context.extend(history(8, size=400))
    await agent.reply(user("What now?"))
    (receipt,) = applied(agent)
    assert receipt.reason is Reason.RULE
    assert [request.kind for request in summariser.requests]


@pytest.mark.row("D9")
def test_where_a_rule_compacts_none_is_injected_and_nothing_else_compacts_on_its_own(write):
    hook = "{id: own, condition: {type: context_pressure, threshold: 0.6}, action: {type: compact_context}}"
    loaded = load_config_file(write(f"execution:\n  context: {{}}\n  hooks: [{hook}]\n")).config()
    assert [rule.id for rule in loaded.rules] == ["own"]
    assert not ContextConfig.from_loaded(loaded).triggers.automatic


@pytest.mark.row("D9")
def test_auto_compact_can_be_turned_off(write):
    loaded = load_config_file(write("execution:\n  context: {auto_compact: no}\n")).config()
    assert loaded.rules == ()
    assert not ContextConfig.from_loaded(loaded).triggers.automatic


@pytest.mark.row("C9")
@pytest.mark.asyncio
async def test_cowagents_own_file_gives_its_budgets_and_its_other_keys_are_left_alone(write):
    path = write(
        json.dumps(
            {
                "channel_type": "web",
                "model": "claude",
                "agent": True,
                "agent_max_context_tokens": 80000,
                "agent_max_context_turns": 3,
                "agent_max_steps": 12,
            },
            indent="\t",
        ),
        "config.json",
    )
    config = await asyncio.to_thread(ContextConfig.from_file, path)
    assert config.triggers.max_tokens == 80_000
    assert config.triggers.max_turns == 3
    assert config.history.max_tool_calls == 12
    assert config.overflow.on_unfit == "clear"
    agent = make_agent(ScriptedModel(["Done."], context_size=100_000), config=config, offloader=memory_offloader())
    agent.state.context.extend(history(6, size=50))
    await agent.reply(user("What now?"))
    assert applied(agent)


@pytest.mark.row("O5")
@pytest.mark.row("O7")
def test_openclaws_own_file_gives_its_mode_its_cap_and_its_channels(write):
    limits = {"telegram": {"dmHistoryLimit": 20, "dms": {"7": {"historyLimit": 5}}}}
    channels = {"telegram": {"enabled": True, "botToken": "{{env.NO_SUCH_TOKEN}}", **limits["telegram"]}}
    path = write(
        json.dumps(
            {
                "agents": {"defaults": {"compaction": {"mode": "safeguard"}, "workspace": "~/w"}, "list": []},
                "agentContextTokens": 100_000,
                "channels": channels,
                "session": {"scope": "per-sender", "maintenance": {"mode": "enforce"}},
                "hooks": {"enabled": True},
                "memory": {"backend": "qmd"},
            }
        ),
        "openclaw.json",
    )
    loaded = load_config_file(path).config()
    config = ContextConfig.from_loaded(loaded)
    assert loaded.profile == "openclaw"
    assert loaded.channels == limits
    assert loaded.section("retention") == {"mode": "enforce"}
    assert config.window.cap_tokens == 100_000
    assert config.window.history_margin == 1.2
    assert settings_of(config).most_tokens(200_000) == 120_000


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_file_names_a_profile_and_changes_single_fields_of_it(write, name):
    path = write(f"profile: {name}\nsummary:\n  reminder_tools: 7\nreserve_ratio: 0.05\n")
    expected = ContextConfig.profile(name, summary={"reminder_tools": 7}, reserve_ratio=0.05)
    assert ContextConfig.from_file(path) == expected


def test_settings_that_do_not_go_together_are_refused_by_the_class_itself(write):
    with pytest.raises(ConfigError, match="lower reserve_ratio"):
        ContextConfig.from_file(write("trigger_ratio: 0.2\nreserve_ratio: 0.3\n"))


def test_an_unknown_agent_is_refused_with_the_nearest_name(write):
    path = write("agents: [{id: planner}, {id: writer}]\n")
    with pytest.raises(ConfigError, match="names no agent 'writr': did you mean writer"):
        ContextConfig.from_file(path, "writr")


def test_a_bad_file_says_line_column_and_the_nearest_name(write):
    path = write("execution:\n  context:\n    keep_recnt: 4\n")
    with pytest.raises(ConfigFileError) as refused:
        ContextConfig.from_file(path)
    assert str(refused.value) == f"{path}:3:5: execution.context.keep_recnt is unknown: did you mean keep_recent?"


def test_a_file_can_have_every_section_and_field_of_the_config_that_is_no_code():
    own = set(ContextConfig.model_fields)
    assert set(HOST_FIELDS) == own - set(_SECTIONS)
    assert set(SECTIONS) - {"session", "retention", "locks"} == set(_SECTIONS) - {"hooks"}


@pytest.mark.row("D4")
@pytest.mark.parametrize(
    ("brain", "kind"),
    [
        (Brain(provider="ollama", model="qwen2.5:3b", backend="openai_compat", context_size=8000), OpenAIChatModel),
        (Brain(provider="deepseek", model="deepseek-chat", config={"api_key": "k"}), DeepSeekChatModel),
        (
            Brain(provider="mine", model="m", backend="openai_compat", config={"api_key": "k", "base_url": "http://x"}),
            OpenAIChatModel,
        ),
    ],
    ids=["ollama", "deepseek", "mine"],
)
def test_a_brain_becomes_a_model_of_agentscopes_own(brain, kind):
    model = model_of(brain)
    assert isinstance(model, kind)
    assert model.model == brain.model
    if brain.context_size:
        assert model.context_size == brain.context_size


@pytest.mark.row("D4")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"provider": "opnai"}, "for which AgentScope has no model here: did you mean openai?"),
        ({"config": {}}, "lacks or does not take api_key"),
        ({"config": {"api_key": "s3cret", "bas_url": "http://x"}}, "bas_url is unknown to OpenAICredential"),
        ({"config": {"api_key": {"s3cret": 1}}}, "lacks or does not take api_key"),
        ({"provider": "anthropic", "temperature": 0.5}, "temperature is set, and AnthropicChatModel"),
    ],
)
def test_a_brain_that_no_model_can_be_made_of_is_refused_without_naming_its_key(changes, problem):
    given: dict[str, Any] = {"provider": "openai", "model": "m", "config": {"api_key": "s3cret"}}
    with pytest.raises(ConfigError) as refused:
        model_of(Brain(**{**given, **changes}))
    assert problem in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.row("D4")
def test_what_a_brain_takes_from_the_environment_is_in_no_refusal(write, monkeypatch):
    monkeypatch.setenv("PROVIDER", "sk-4f9a72c1")
    path = write("profile: default\nsummary_brain: {provider: '{{env.PROVIDER}}', model: m}\n")
    with pytest.raises(ConfigError) as refused:
        ContextConfig.from_file(path)
    assert "summary_brain.provider is {{env.PROVIDER}}" in str(refused.value)
    assert "sk-4f9a72c1" not in "".join(traceback.format_exception(refused.value))


def test_a_factory_of_the_users_is_asked_first(write):
    path = write("profile: default\nsummary_brain: {provider: mine, model: small}\n")
    asked: list[Brain] = []
    own = ScriptedModel(["x"])

    def make(brain: Brain) -> ScriptedModel:
        asked.append(brain)
        return own

    assert ContextConfig.from_file(path, make_model=make).summary.model is own
    assert asked == [Brain(provider="mine", model="small")]
