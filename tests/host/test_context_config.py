"""`ContextConfig`: the host's names, defaults and bounds, checked at construction, accepted wherever the host takes one."""

import copy
import pickle
import warnings

import pytest
from agentscope.agent import Agent
from agentscope.agent import ContextConfig as HostContextConfig
from agentscope.message import ToolResultState
from agentscope.tool import FunctionTool, Toolkit

from ctxkit import (
    CompressionMiddleware,
    ConfigError,
    ContextConfig,
    CostConfig,
    HooksConfig,
    LadderConfig,
    LocalWorkspace,
    OffloadConfig,
    OverflowConfig,
    Price,
    PrivacyConfig,
    Reason,
    ResultsConfig,
    SummaryConfig,
    TriggersConfig,
    WindowConfig,
)
from ctxkit.host import workspace
from ctxkit.host._compat import _NEWER_FIELDS
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import (
    applied,
    events_of,
    fetch,
    fetches,
    history,
    make_agent,
    memory_offloader,
    orphans,
    receipts,
    text_of,
    user,
)

pytestmark = pytest.mark.row("A1")

NAN, INF = float("nan"), float("inf")
SECTIONS = {
    "results",
    "summary",
    "triggers",
    "overflow",
    "offload",
    "privacy",
    "ladder",
    "cost",
    "window",
    "hooks",
    "memory",
    "history",
}
BOUNDED_BY_CTXKIT = {"trigger_ratio", "tool_result_limit"}
"""Fields that ctxkit declares anew: 2.0.6 refuses 0.9, and no host checks the limit."""


def bounds(field):
    return sorted(repr(bound) for bound in field.metadata)


# Names, defaults and bounds


def test_every_field_of_the_host_is_there_with_the_hosts_default():
    ours, hosts = ContextConfig(), HostContextConfig()

    assert set(HostContextConfig.model_fields) | set(_NEWER_FIELDS) | SECTIONS == set(ContextConfig.model_fields)
    assert {name: getattr(hosts, name) for name in HostContextConfig.model_fields} == {
        name: getattr(ours, name) for name in HostContextConfig.model_fields
    }


@pytest.mark.parametrize("name", sorted(set(HostContextConfig.model_fields) - BOUNDED_BY_CTXKIT))
def test_a_field_of_the_host_has_the_hosts_bounds(name):
    assert bounds(HostContextConfig.model_fields[name]) == bounds(ContextConfig.model_fields[name])


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("context_buffer_ratio", 0.2),
        ("compression_fallback_to_truncation", True),
        ("compression_tool_enabled", False),
        ("max_image_num", 5),
    ],
)
def test_a_field_that_an_older_host_lacks_is_supplied(name, default):
    assert getattr(ContextConfig(), name) == default


def test_a_trigger_of_nine_tenths_is_accepted_on_every_host():
    assert ContextConfig(trigger_ratio=0.9).trigger_ratio == 0.9


def test_an_agent_takes_a_trigger_below_the_hosts_default_buffer():
    config = ContextConfig(trigger_ratio=0.15)

    agent = make_agent(ScriptedModel(), config=config)

    assert agent.context_config is config


# What is refused, and how


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trigger_ration": 0.8}, ["trigger_ration", "0.8", "unknown setting", "trigger_ratio"]),
        ({"trigger_ratio": 0.95}, ["trigger_ratio", "0.95", "less than or equal to 0.9"]),
        ({"trigger_ratio": 0}, ["trigger_ratio", "0", "greater than 0"]),
        ({"reserve_ratio": 0}, ["reserve_ratio", "0", "greater than 0"]),
        ({"reserve_ratio": 0.8}, ["reserve_ratio", "0.8", "trigger_ratio", "lower reserve_ratio"]),
        ({"tool_result_limit": -1}, ["tool_result_limit", "-1", "greater than or equal to 1"]),
        ({"max_image_num": -1}, ["max_image_num", "-1", "greater than or equal to 0"]),
        ({"context_buffer_ratio": 1.5}, ["context_buffer_ratio", "1.5", "less than or equal to 1"]),
        ({"trigger_ratio": "high"}, ["trigger_ratio", "'high'", "valid number"]),
        ({"summary_template": "{task}"}, ["summary_template", "'task'", "summary_schema lacks", "task_overview"]),
        ({"summary_template": 'As JSON: {"a": 1}'}, ["summary_template", "{{", "literal braces"]),
        ({"summary_template": "{task_overview"}, ["summary_template", "cannot be rendered", "literal braces"]),
        ({"summary_template": "{}"}, ["summary_template", "literal braces"]),
        ({"summary_template": "{task_overview.x}"}, ["summary_template", "cannot be rendered"]),
        ({"summary_schema": {"type": "object"}}, ["summary_schema", "properties"]),
        (
            {"summary_schema": {"type": "object", "properties": {"task_overview": {"type": "text"}}}},
            ["summary_schema", "properties/task_overview/type", "'text'", "mend it there"],
        ),
        (
            {"summary_schema": {"type": "object", "properties": {"task_overview": 5}}},
            ["summary_schema", "task_overview"],
        ),
        ({"summary": {"warm": "perhaps"}}, ["summary", "'perhaps'"]),
        ({"results": 5}, ["results", "5"]),
        ({"triggers": {"cooldown": 1}}, ["triggers.cooldown is 1", "unknown setting", "cooldown_turns"]),
        ({"cost": {"price": {"cache": 1}}}, ["cost.price.cache is 1", "unknown setting", "cached"]),
        ({"window": {"max_tokens": -1}}, ["WindowConfig.max_tokens is -1", "at least 0"]),
        ({"cost": Price()}, ["cost is Price(", "CostConfig"]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_setting_that_cannot_work_is_refused_with_field_value_and_remedy(settings, said):
    with pytest.raises(ConfigError) as refusal:
        ContextConfig(**settings)

    assert [part for part in said if part not in str(refusal.value)] == []


@pytest.mark.parametrize(
    ("section", "settings", "said"),
    [
        (ResultsConfig, {"limit_ratio": 0}, ["ResultsConfig.limit_ratio is 0", "above 0"]),
        (
            ResultsConfig,
            {"per_tool_limits": {"Read": -5}},
            ["ResultsConfig.per_tool_limits", "'Read': -5", "at least 1"],
        ),
        (ResultsConfig, {"marker": "middle"}, ["ResultsConfig.marker is 'middle'", "'gap'", "'end'"]),
        (SummaryConfig, {"max_tokens": 1}, ["SummaryConfig.max_tokens is 1", "at least 50"]),
        (SummaryConfig, {"timeout_s": -1}, ["SummaryConfig.timeout_s is -1", "above 0"]),
        (SummaryConfig, {"share_ratio": True}, ["SummaryConfig.share_ratio is True", "ratio"]),
        (TriggersConfig, {"max_tokens": 0}, ["TriggersConfig.max_tokens is 0", "at least 1"]),
        (OverflowConfig, {"on_unfit": "ignore"}, ["OverflowConfig.on_unfit is 'ignore'", "'refuse'"]),
        (OverflowConfig, {"retries": -1}, ["OverflowConfig.retries is -1", "at least 0"]),
        (OffloadConfig, {"recall_tokens": 5}, ["OffloadConfig.recall_tokens is 5", "at least 100"]),
        (ResultsConfig, {"exclude_tools": "Read"}, ["ResultsConfig.exclude_tools is 'Read'", "set of tool names"]),
        (ResultsConfig, {"verbatim_tools": "Read"}, ["ResultsConfig.verbatim_tools is 'Read'", "set of tool names"]),
        (ResultsConfig, {"exclude_tools": {1}}, ["ResultsConfig.exclude_tools is {1}", "set of tool names"]),
        (ResultsConfig, {"exclude_tools": None}, ["ResultsConfig.exclude_tools is None", "set of tool names"]),
        (ResultsConfig, {"per_tool_limits": 5}, ["ResultsConfig.per_tool_limits is 5", "mapping"]),
        (ResultsConfig, {"per_tool_limits": {"Read": 1.5}}, ["ResultsConfig.per_tool_limits", "1.5", "at least 1"]),
        (SummaryConfig, {"warm": "x"}, ["SummaryConfig.warm is 'x'", "True or False"]),
        (SummaryConfig, {"max_tokens": 100.5}, ["SummaryConfig.max_tokens is 100.5", "whole number"]),
        (SummaryConfig, {"attempts": 1.5}, ["SummaryConfig.attempts is 1.5", "whole number"]),
        (SummaryConfig, {"attempts": True}, ["SummaryConfig.attempts is True", "whole number"]),
        (SummaryConfig, {"timeout_s": NAN}, ["SummaryConfig.timeout_s is nan", "above 0"]),
        (SummaryConfig, {"retry_delay_s": INF}, ["SummaryConfig.retry_delay_s is inf", "finite"]),
        (SummaryConfig, {"retry_delay_s": NAN}, ["SummaryConfig.retry_delay_s is nan", "finite"]),
        (TriggersConfig, {"max_tokens": 1.5}, ["TriggersConfig.max_tokens is 1.5", "whole number"]),
        (TriggersConfig, {"min_gain_ratio": NAN}, ["TriggersConfig.min_gain_ratio is nan", "ratio"]),
        (OverflowConfig, {"retries": 1.5}, ["OverflowConfig.retries is 1.5", "whole number"]),
        (OverflowConfig, {"output_reserve_tokens": INF}, ["OverflowConfig.output_reserve_tokens is inf", "whole"]),
        (OverflowConfig, {"output_reserve_tokens": NAN}, ["OverflowConfig.output_reserve_tokens is nan", "whole"]),
        (OffloadConfig, {"timeout_s": NAN}, ["OffloadConfig.timeout_s is nan", "above 0"]),
        (OffloadConfig, {"local_copy": "no"}, ["OffloadConfig.local_copy is 'no'", "True or False"]),
        (PrivacyConfig, {"redact": "no"}, ["PrivacyConfig.redact is 'no'", "True or False"]),
        (PrivacyConfig, {"redactor": "no"}, ["PrivacyConfig.redactor is 'no'", "a function"]),
        (OffloadConfig, {"recall_tools": "no"}, ["OffloadConfig.recall_tools is 'no'", "True or False"]),
        (ResultsConfig, {"limit_tokens": 0}, ["ResultsConfig.limit_tokens is 0", "at least 1"]),
        (TriggersConfig, {"mode": "fast"}, ["TriggersConfig.mode is 'fast'", "'quality'", "'balanced'", "'cost'"]),
        (TriggersConfig, {"max_turns": "3"}, ["TriggersConfig.max_turns is '3'", "whole number"]),
        (TriggersConfig, {"pressure_ratio": 2}, ["TriggersConfig.pressure_ratio is 2", "at most 1"]),
        (TriggersConfig, {"attention_price": -1}, ["TriggersConfig.attention_price is -1", "at least 0"]),
        (Price, {"cached": -1}, ["Price.cached is -1", "at least 0"]),
        (Price, {"written": 0.5}, ["Price.written is 0.5", "at least 1"]),
        (Price, {"input_usd": "3"}, ["Price.input_usd is '3'", "finite"]),
        (Price, {"cache_minutes": 0}, ["Price.cache_minutes is 0", "above 0"]),
        (Price, {"source": 3}, ["Price.source is 3", "a text"]),
        (CostConfig, {"price": 0.1}, ["CostConfig.price is 0.1", "ctxkit.Price"]),
        (CostConfig, {"ask_for_cache": 1}, ["CostConfig.ask_for_cache is 1", "True or False"]),
        (LadderConfig, {"rungs": "summarize"}, ["LadderConfig.rungs is 'summarize'", "sequence"]),
        (LadderConfig, {"rungs": ["all"]}, ["LadderConfig.rungs is 'all'", "clear_results", "plan_edits"]),
        (LadderConfig, {"keep_results": -1}, ["LadderConfig.keep_results is -1", "at least 0"]),
        (LadderConfig, {"strategy": "drop"}, ["LadderConfig.strategy is 'drop'", "'truncate'"]),
        (SummaryConfig, {"model": "cheap"}, ["SummaryConfig.model is 'cheap'", "chat model"]),
        (SummaryConfig, {"pins_share_ratio": 0}, ["SummaryConfig.pins_share_ratio is 0", "above 0"]),
        (SummaryConfig, {"lane": "none"}, ["SummaryConfig.lane is 'none'", "'session'"]),
        (WindowConfig, {"cap_tokens": 0}, ["WindowConfig.cap_tokens is 0", "at least 1"]),
        (WindowConfig, {"estimate_factor": 0.5}, ["WindowConfig.estimate_factor is 0.5", "at least 1"]),
        (HooksConfig, {"before_compression": 3}, ["HooksConfig.before_compression is 3", "a function"]),
        (HooksConfig, {"after_compression": ["x"]}, ["HooksConfig.after_compression is ['x']", "a function"]),
    ],
)
def test_a_section_refuses_what_cannot_work_with_field_value_and_remedy(section, settings, said):
    with pytest.raises(ConfigError) as refusal:
        section(**settings)

    assert [part for part in said if part not in str(refusal.value)] == []


@pytest.mark.parametrize("names", [["Read"], ("Read",), {"Read"}, frozenset({"Read"})])
def test_tool_names_may_come_in_any_collection(names):
    assert ResultsConfig(exclude_tools=names).exclude_tools == frozenset({"Read"})


def test_a_refusal_is_a_value_error_too():
    with pytest.raises(ValueError, match="trigger_ratio"):
        ContextConfig(trigger_ratio=2)


def test_literal_braces_in_a_template_are_fine_when_doubled():
    config = ContextConfig(summary_template='{{"task": "{task_overview}"}}')

    assert config.summary_template.format(task_overview="find it") == '{"task": "find it"}'


# It works as a dataclass and as the host's pydantic model do


def a_config() -> ContextConfig:
    return ContextConfig(trigger_ratio=0.7, results=ResultsConfig(per_tool_limits={"Read": 500}))


def through_pickle(config):
    return pickle.loads(pickle.dumps(config))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle, ContextConfig.model_copy])
def test_a_copy_is_equal_and_of_the_same_class(copied):
    config = a_config()

    other = copied(config)

    assert (other, type(other)) == (config, ContextConfig)
    assert other != ContextConfig()


def test_a_changed_copy_keeps_everything_else():
    config = a_config()

    assert config.replace(trigger_ratio=0.5) == ContextConfig(trigger_ratio=0.5, results=config.results)
    assert config.model_copy(update={"trigger_ratio": 0.5}).results == config.results
    assert config.trigger_ratio == 0.7


def test_a_changed_copy_is_checked_as_at_construction():
    with pytest.raises(ConfigError, match="reserve_ratio"):
        a_config().replace(trigger_ratio=0.05)


def test_its_dump_makes_it_anew():
    config = a_config()

    assert ContextConfig(**config.model_dump()) == config
    assert ContextConfig.model_validate_json(config.model_dump_json()) == config


def test_the_host_reads_its_dump():
    assert HostContextConfig.model_validate_json(a_config().model_dump_json()).trigger_ratio == 0.7


def test_its_repr_names_its_settings():
    assert "trigger_ratio=0.7" in repr(a_config())
    assert "per_tool_limits={'Read': 500}" in repr(a_config())


def test_a_section_is_frozen():
    with pytest.raises(AttributeError):
        ContextConfig().results.limit_ratio = 0.5


# The host's own uses of a config


needs_the_compression_tool = pytest.mark.skipif(
    "compression_tool_enabled" not in HostContextConfig.model_fields, reason="AgentScope 2.0.6 has no such tool"
)


@needs_the_compression_tool
@pytest.mark.asyncio
async def test_the_agents_own_compression_tool_compresses_and_says_so():
    model = ScriptedModel([*fetches(12), call("CompressContext"), "done"], context_size=8192, enforce="cl100k")
    config = ContextConfig(compression_tool_enabled=True, context_buffer_ratio=0.4)
    agent = make_agent(model, config=config, offloader=memory_offloader())

    await events_of(agent.reply_stream(user("Look up twelve topics, then compress.")))

    [receipt] = applied(agent)
    assert receipt.reason is Reason.TOOL
    assert f"Context compressed from about {receipt.tokens_before}" in text_of(agent.state.context)
    assert orphans(agent.state.context) == []


@needs_the_compression_tool
@pytest.mark.asyncio
async def test_the_agents_own_compression_tool_says_truly_that_nothing_was_to_be_done():
    model = ScriptedModel([call("CompressContext"), "done"], context_size=8192)
    agent = make_agent(model, config=ContextConfig(compression_tool_enabled=True))

    await events_of(agent.reply_stream(user("Compress.")))

    result = next(b for b in agent.state.context[-1].content if b.type == "tool_result")
    assert result.state == ToolResultState.SUCCESS
    assert "not long enough to compress" in text_of(agent.state.context)


@pytest.mark.asyncio
@pytest.mark.parametrize("config_class", [ContextConfig, HostContextConfig], ids=["ctxkit's", "the host's"])
async def test_a_one_off_config_is_taken_for_one_compression(config_class):
    agent = make_agent(ScriptedModel(context_size=8192), offloader=memory_offloader())
    agent.state.context.extend(history(6))
    before = list(agent.state.context)

    await agent.compress_context()
    unchanged = list(agent.state.context)
    await agent.compress_context(context_config=config_class(trigger_ratio=0.2, reserve_ratio=0.05))

    assert unchanged == before
    assert [receipt.limit_tokens for receipt in applied(agent)] == [int(0.2 * 8192)]
    assert agent.context_config == ContextConfig()
    assert len(agent.state.context) < len(before)


@pytest.mark.asyncio
async def test_an_agent_with_the_hosts_plain_config_is_served_with_defaults():
    model = ScriptedModel([*fetches(25), "done"], context_size=8192, enforce="cl100k")
    agent = make_agent(model, config=HostContextConfig(reserve_ratio=0.2), offloader=memory_offloader())

    await events_of(agent.reply_stream(user("Look up 25 topics.")))

    assert len(applied(agent)) == 1
    assert not any(request.refused for request in model.requests)


@pytest.mark.asyncio
async def test_an_agent_without_a_config_is_served_with_defaults():
    model = ScriptedModel([*fetches(25), "done"], context_size=8192)
    agent = Agent(
        name="scribe",
        system_prompt="Look up.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(fetch, is_read_only=True)]),
        middlewares=[CompressionMiddleware()],
    )

    await agent.reply(user("Look up 25 topics."))

    assert {receipt.limit_tokens for receipt in receipts(agent)} == {int(0.8 * 8192)}


@pytest.mark.asyncio
@pytest.mark.may_block("the host's workspace blocks")
async def test_without_the_middleware_the_host_compresses_into_our_store_and_is_warned_of_once(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "_warned", set())
    space = LocalWorkspace(workdir=str(tmp_path))
    model = ScriptedModel(context_size=8192)
    config = ContextConfig(trigger_ratio=0.5, context_buffer_ratio=0.1)
    agent = make_agent(model, config=config, offloader=space, middlewares=[])
    agent.state.context.extend(history(20))

    with pytest.warns(UserWarning, match="CompressionMiddleware is not installed"):
        await agent.compress_context()
    agent.state.context.extend(history(20, prefix="later"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await agent.compress_context()

    log = (tmp_path / "sessions" / agent.state.session_id / "context.jsonl").read_text()
    assert "old-0" in log
    assert "later-0" in log


@needs_the_compression_tool
@pytest.mark.asyncio
async def test_the_compression_tool_tells_the_truth_after_many_compressions_too():
    model = ScriptedModel([*fetches(12), call("CompressContext"), "done"], context_size=8192, enforce="cl100k")
    config = ContextConfig(compression_tool_enabled=True, context_buffer_ratio=0.4)
    agent = make_agent(model, config=config, offloader=memory_offloader())
    for _ in range(100):
        await agent.compress_context()

    await agent.reply(user("Look up twelve topics, then compress."))

    assert "Context compressed from about" in text_of(agent.state.context)
