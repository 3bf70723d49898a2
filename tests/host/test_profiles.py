"""A profile becomes an agent's config and a session's middleware; what is said besides wins."""

import copy
import pickle

import pytest

from ctxkit import ConfigError, ContextConfig, LadderConfig, MemorySessionStore, SessionMiddleware
from ctxkit.host.context_config import settings_of
from ctxkit.profiles import PROFILES
from ctxkit.testing import ScriptedModel
from tests.host.agents import fetches, make_agent, memory_offloader, receipts, user

SYSTEMS = [name for name in PROFILES if name != "default"]


@pytest.mark.parametrize("name", PROFILES)
def test_a_config_has_all_values_of_its_profile(name):
    config = ContextConfig.profile(name)

    for key, each in PROFILES[name].values.items():
        section, _, field = key.rpartition(".")
        if section not in {"session", "retention", "locks"}:
            assert getattr(getattr(config, section) if section else config, field) == each.value


def test_the_default_profile_is_what_there_is_without_one():
    assert ContextConfig.profile("default") == ContextConfig()


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_ratio_that_a_profile_sets_counts_as_set_and_one_that_it_leaves_does_not(name):
    assert settings_of(ContextConfig.profile(name)).is_ratio_explicit
    assert settings_of(ContextConfig.profile(name)).is_reserve_explicit == (name == "agentscope")
    assert not settings_of(ContextConfig.profile("default")).is_ratio_explicit


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(
    "through",
    [
        pytest.param(lambda config: config.model_copy(), id="model_copy"),
        pytest.param(lambda config: config.model_copy(deep=True), id="deep model_copy"),
        pytest.param(lambda config: config.replace(), id="replace"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda config: pickle.loads(pickle.dumps(config)), id="pickle"),
    ],
)
def test_a_profile_survives(name, through):
    config = ContextConfig.profile(name)
    after = through(config)

    assert after == config
    assert settings_of(after) == settings_of(config)


def test_what_is_given_wins_a_section_as_a_mapping_field_by_field():
    config = ContextConfig.profile(
        "digitorn", trigger_ratio=0.7, triggers={"cooldown_turns": 5}, ladder=LadderConfig(keep_messages=4)
    )

    assert config.trigger_ratio == 0.7
    assert (config.triggers.cooldown_turns, config.triggers.pressure_ratio) == (5, 0.75)
    assert config.ladder == LadderConfig(keep_messages=4)


def test_a_change_of_one_config_leaves_the_profile_and_the_next_config_as_they_were():
    first = ContextConfig.profile("digitorn")
    first.summary_schema["properties"]["summary"]["type"] = "number"

    assert ContextConfig.profile("digitorn").summary_schema["properties"]["summary"]["type"] == "string"


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("openclawd", {}, r"profile is 'openclawd': give one of .*did you mean 'openclaw'\?"),
        (
            "digitorn",
            {"triggers": {"cooldown": 1}},
            r"triggers.cooldown is 1: unknown setting; known are .*cooldown_turns",
        ),
        ("digitorn", {"trigger": 0.5}, r"trigger is 0.5: unknown setting"),
        ("cowagent", {"triggers": {"max_turns": 0}}, r"TriggersConfig.max_turns is 0"),
    ],
)
def test_what_cannot_work_is_refused_in_words(name, settings, said):
    with pytest.raises(ConfigError, match=said):
        ContextConfig.profile(name, **settings)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", PROFILES)
async def test_an_agent_on_a_profile_comes_through_a_long_task(name):
    model = ScriptedModel([*fetches(14), "done"], context_size=32_000, enforce="cl100k")
    if name == "digitorn":
        model = ScriptedModel(
            [*fetches(60), "done"], context_size=16_384, enforce="cl100k", summaries={"summary": "So far."}
        )
    agent = make_agent(model, config=ContextConfig.profile(name), offloader=memory_offloader())

    answer = await agent.reply(user("Look all of it up."))

    assert answer.get_text_content() == "done"
    assert not any(request.refused for request in model.requests)
    assert not [receipt for receipt in receipts(agent) if receipt.outcome == "failed"]


# Sessions


@pytest.mark.asyncio
async def test_a_session_middleware_has_the_sessions_values_of_a_profile_and_closes_the_locks_that_it_made():
    async with SessionMiddleware.profile("openclaw", MemorySessionStore()) as openclaw:
        locks = openclaw._own_locks
        assert (locks.timeout_s, locks.max_hold_s, locks.watchdog_s) == (10.0, 300.0, 60.0)
        assert openclaw._keeping.locks is locks
        assert (openclaw._retention.max_age_days, openclaw._retention.max_sessions) == (30.0, 500)
        assert (openclaw._retention.rotate_index_bytes, openclaw._retention.keep_backups) == (10_000_000, 3)
    async with SessionMiddleware.profile("cowagent", MemorySessionStore()) as cowagent:
        assert (cowagent._keeping.rule, cowagent._keeping.max_turns) == ("texts", 20)
        assert (cowagent._retention.mode, cowagent._retention.max_age_days) == ("enforce", 30.0)
    async with SessionMiddleware.profile("default", MemorySessionStore()) as plain:
        assert (plain._keeping.rule, plain._retention) == ("whole", None)


@pytest.mark.asyncio
async def test_of_a_session_middleware_too_what_is_given_wins_field_by_field():
    async with SessionMiddleware.profile(
        "openclaw", MemorySessionStore(), retention={"mode": "enforce"}, locks={"timeout_s": 1.0}, agent_id="main-2"
    ) as middleware:
        assert (middleware._retention.mode, middleware._retention.max_sessions) == ("enforce", 500)
        assert (middleware._own_locks.timeout_s, middleware._own_locks.max_hold_s) == (1.0, 300.0)
    async with SessionMiddleware.profile("openclaw", MemorySessionStore(), retention=None, locks=None) as bare:
        assert (bare._retention, bare._own_locks, bare._keeping.locks) == (None, None, None)


@pytest.mark.parametrize("name", ["openclawd", "Default"])
def test_an_unknown_profile_of_sessions_is_refused_in_words(name):
    with pytest.raises(ConfigError, match="did you mean"):
        SessionMiddleware.profile(name, MemorySessionStore())
