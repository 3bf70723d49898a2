"""Files of settings: what they say, and all that is wrong with them, each with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ctxkit.config_file import Brain, LoadedConfig, load_config_file
from ctxkit.config_file.nodes import MOST_BYTES
from ctxkit.errors import ConfigError, ConfigFileError
from ctxkit.rules import CompactContext, ContextPressure, Rule

DATA = Path(__file__).parents[2] / "data" / "config"
SECRET = "sk-4f9a72c1"
PLACEHOLDERS = "{turn}, {tokens}, {messages}, and '{{' for a brace."


@pytest.fixture
def load(tmp_path):
    def loaded(text: str | bytes, name: str = "app.yaml", agent: str | None = None, **environment: str) -> LoadedConfig:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config_file(path, environment=environment).config(agent)

    return loaded


@pytest.fixture
def problems(load, tmp_path):
    def told(text: str | bytes, name: str = "app.yaml", **environment: str) -> list[str]:
        with pytest.raises(ConfigFileError) as refused:
            load(text, name, **environment)
        assert "\n".join(refused.value.problems) == str(refused.value)
        return [line.removeprefix(f"{tmp_path / name}:") for line in refused.value.problems]

    return told


def values(loaded: LoadedConfig) -> dict[str, object]:
    return {name: setting.value for name, setting in loaded.settings.items()}


def test_execution_level_holds_for_agents_that_say_nothing_and_the_brains_own_context_wins_elsewhere():
    file = load_config_file(DATA / "digitorn-two-levels.yaml", environment={"DEEPSEEK_API_KEY": SECRET})
    assert file.agents == ("assistant", "writer")
    assistant, writer = file.config("assistant"), file.config("writer")
    assert values(assistant) == {
        "window.max_tokens": 8000,
        "overflow.output_reserve_tokens": 1000,
        "ladder.strategy": "truncate",
        "ladder.keep_messages": 6,
        "triggers.pressure_ratio": 0.6,
        "summary.max_tokens": 1024,
        "triggers.automatic": False,  # the file's own rule compacts
    }
    assert values(writer)["window.max_tokens"] == 0
    assert values(writer)["ladder.keep_messages"] == 10
    assert writer.profile == assistant.profile == "digitorn"
    brain = Brain(provider="deepseek", model="deepseek-chat", backend="openai_compat", config={"api_key": SECRET})
    assert (assistant.summary_brain, writer.summary_brain) == (brain, brain)
    assert [rule.id for rule in writer.rules] == ["pressure_log", "aggressive_compact"]
    assert writer.rules[1] == Rule(
        id="aggressive_compact", condition=ContextPressure(0.6), action=CompactContext("truncate", 4), cooldown=60
    )


def test_each_setting_says_its_line():
    loaded = load_config_file(DATA / "digitorn-two-levels.yaml", environment={"DEEPSEEK_API_KEY": "x"}).config(
        "assistant"
    )
    assert loaded.settings["ladder.keep_messages"].origin == (
        f"{DATA / 'digitorn-two-levels.yaml'}:47 agents.0.brain.context.keep_recent"
    )


def test_ctxkits_own_names_are_read_at_the_root_and_in_a_context():
    environment = {"CTX_TOKENS": "120000", "CTX_KEY": SECRET}
    file = load_config_file(DATA / "own.yaml", environment=environment)
    loaded = file.config("planner")
    assert loaded.profile == "openclaw"
    assert loaded.host_fields() == {"trigger_ratio": 0.7}
    assert loaded.section("window") == {"cap_tokens": 50_000}
    assert loaded.section("ladder") == {"rungs": ("deduplicate", "summarize"), "keep_results": 2}
    assert loaded.section("results")["exclude_tools"] == {"Read"}
    assert loaded.section("cost")["price"].input_usd == 3
    assert loaded.section("session") == {"restore": "texts"}
    assert loaded.section("retention") == {"mode": "warn", "max_age_days": 7}
    assert loaded.section("locks") == {"timeout_s": 5}
    assert loaded.summary_brain is None


def test_a_placeholder_may_stand_for_a_number_and_what_it_stands_for_is_not_shown(load):
    loaded = load(
        "profile: default\nwindow: {cap_tokens: '{{env.A}}'}\ncompression_prompt: 'x {{ env.B }}'\n", A="9000", B="b"
    )
    assert values(loaded) == {"window.cap_tokens": 9000, "compression_prompt": "x b"}
    assert "9000" not in repr(loaded)
    assert "'x b'" not in repr(loaded)


def test_the_rule_that_compresses_in_place_of_the_automatic_is_named_by_its_line(load, tmp_path):
    rules = "[{id: '{{env.ID}}', condition: {type: always}, action: {type: compact_context}}]"
    loaded = load(f"execution:\n  hooks: {rules}\n", ID=SECRET)
    assert [rule.id for rule in loaded.rules] == [SECRET]
    off = loaded.settings["triggers.automatic"]
    assert (off.value, off.origin) == (
        False,
        f"{tmp_path / 'app.yaml'}:2 execution.hooks.0, which compresses in its place",
    )


def test_what_a_rule_calls_with_a_secret_is_not_shown_by_what_was_loaded(load):
    action = "{type: module_action, module: m, action: a, params: {key: '{{env.KEY}}'}}"
    loaded = load(f"hooks: [{{id: a, condition: {{type: always}}, action: {action}}}]\n", KEY=SECRET)
    assert SECRET in repr(loaded.rules)
    assert SECRET not in repr(loaded)
    assert SECRET not in loaded.hide(repr(loaded.rules))


def test_a_key_is_never_shown_by_what_was_loaded(load):
    loaded = load(f"summary_brain: {{provider: p, model: m, config: {{api_key: {SECRET}}}}}\n")
    assert loaded.summary_brain is not None
    assert loaded.summary_brain.config == {"api_key": SECRET}
    assert SECRET not in repr(loaded)
    assert loaded.hide(f"the key is {SECRET}") == f"the key is {SECRET}"  # it stands in the file itself


@pytest.mark.parametrize(
    "text",
    [
        "summary_brain: {provider: p, model: m, temperature: '{{env.KEY}}'}\n",
        "window: {max_tokens: '{{env.KEY}}'}\n",
        "execution: {context: {strategy: '{{env.KEY}}'}}\n",
        "profile: '{{env.KEY}}'\n",
        "hooks: [{id: a, on: '{{env.KEY}}', condition: {type: '{{env.KEY}}'}, action: {type: log, message: '{{{env.KEY}}}'}}]",
        "channels: {a: {historyLimit: '{{env.KEY}}'}}\n",
        "cost: {price: {cached: '{{env.KEY}}'}}\n",
        "agents: [{id: '{{env.KEY}}'}, {id: '{{env.KEY}}'}]\n",
        "profile: {a: 'x{{env.KEY}}'}\n",
        "execution: {context: {strategy: 'a \"b\" {{env.KEY}}'}}\n",
        'hooks: [{id: a, condition: {type: "it\'s {{env.KEY}}"}, action: {type: always}}]\n',
        "channels: {a: {historyLimit: ['x{{env.KEY}}']}}\n",
    ],
)
@pytest.mark.parametrize(
    "key", [SECRET, f"-----BEGIN\n{SECRET}\n", f"it's {SECRET}", f'it\'s "{SECRET}"', f"a\\{SECRET}\t"]
)
def test_no_value_of_the_environment_is_ever_said(problems, text, key):
    said = "\n".join(problems(text, KEY=key))
    assert SECRET not in said
    assert "{{env.KEY}}" in said or "env." not in said


def test_a_variable_that_is_not_there_is_named_with_its_line_and_its_value_is_not_checked(problems):
    assert problems("window:\n  max_tokens: '{{env.NOPE}}'\nsummary_brain: {provider: p, model: '{{env.NO}}'}\n") == [
        "2:15: the environment has no NOPE, which {{env.NOPE}} names: set it.",
        "3:37: the environment has no NO, which {{env.NO}} names: set it.",
    ]


def test_what_an_application_needs_for_itself_is_left_alone_placeholders_included(load):
    loaded = load(
        "app: {key: '{{env.NOPE}}'}\nagents: [{id: a, brain: {config: {api_key: '{{env.NOPE}}'}}}]\nmodules: !x {}\n"
    )
    assert values(loaded) == {}
    assert (loaded.agent, loaded.profile, loaded.rules) == ("a", "default", ())


def test_all_that_is_wrong_with_a_file_is_said_in_its_order(problems):
    text = """execution:
  context:
    keep_recnt: 4
    strategy: drop
    summary_brain: {provider: ollama, modal: x, temperature: warm}
    triggers: {mod: cost, max_turns: 0}
  hooks:
    - id: a
      on: turn_strt
      condition: {type: alwaz}
      action: {type: log, message: "{turns}"}
    - {id: b, condition: {type: always}, action: {type: compact_context, strategy: x}, cool: 1}
    - {id: c, condition: {type: always}, action: {type: compact_context}}
    - {id: c, condition: {type: always}, action: {type: compact_context}}
window:
  max_tokens: -1
  max_tokens: 5
summary: {model: x}
results: []
privacy: {redactor: x}
cost: {price: {cache: 1}}
"""
    assert problems(text) == [
        "3:5: execution.context.keep_recnt is unknown: did you mean keep_recent?",
        "4:15: execution.context.strategy is 'drop': give one of 'summarize', 'truncate'.",
        "5:20: execution.context.summary_brain has no model: give it.",
        "5:39: execution.context.summary_brain.modal is unknown: did you mean model?",
        "5:62: execution.context.summary_brain.temperature is 'warm': give a finite number of at least 0.",
        "6:16: execution.context.triggers.mod is unknown: did you mean mode?",
        "6:38: execution.context.triggers.max_turns is 0: give a whole number of at least 1.",
        "9:7: execution.hooks.0.on is 'turn_strt': give one of 'turn_start', 'turn_end'.",
        "10:19: execution.hooks.0.condition.type is 'alwaz', which is unknown: did you mean always?",
        "11:27: execution.hooks.0.action.message is '{turns}': {turns} is no placeholder; use " + PLACEHOLDERS,
        "12:74: execution.hooks.1.action.strategy is 'x': give one of 'summarize', 'truncate'.",
        "12:88: execution.hooks.1.cool is unknown: did you mean cooldown?",
        "14:7: execution.hooks.3.id is 'c', as in line 13: give it its own.",
        "16:15: window.max_tokens is -1: give a whole number of at least 0.",
        "17:3: max_tokens stands here twice, first in line 16: keep one.",
        "18:11: summary.model takes an object: describe the model by summary_brain.",
        "19:10: results is a list: give a mapping of settings.",
        "20:11: privacy.redactor takes code, which cannot stand in a file: set it in your program.",
        "21:16: cost.price.cache is unknown: did you mean cached?",
    ]


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ("a: [1\n", "a.yaml", "2:1: this is no YAML: "),
        ("a: 1\n\tb: 2\n", "a.yaml", "2:1: this is no YAML: "),
        ('{"a": 1,}', "a.json", "1:9: this is no JSON: "),
        ("a: 1\n---\nb: 2\n", "a.yaml", "2:1: this is no YAML: expected a single document"),
        ("- a\n- b\n", "a.yaml", "1:1: this is a list: give a mapping of settings."),
        ("just words", "a.yaml", "1:1: this is a value: give a mapping of settings."),
        ("? [a]\n: b\n", "a.yaml", "1:3: a key must be a word."),
        (b"a: \xff\n", "a.yaml", "1:1: this is no UTF-8 text: save it as UTF-8."),
        ("a: &a [*a]\n", "a.yaml", "1:4: more than"),
        ("a: !!int x\n", "a.yaml", "1:4: this is no int."),
        ("a: " + "1" * 5000, "a.yaml", "1:4: this is no int."),
        ("[" * 3000, "a.yaml", "1:1: this is nested too deeply to be settings."),
        ("{'a': *nope}", "a.yaml", "1:7: this is no YAML: found undefined alias 'nope'"),
        ("a" * (MOST_BYTES + 1), "a.yaml", "1:1: this is larger than 256 kB"),
        ("<<: 3\n", "a.yaml", "1:5: << takes a mapping"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(problems, text, name, problem):
    assert problems(text, name)[0].startswith(problem)


def test_a_billion_laughs_are_refused(problems):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "aliases counted: that is no settings" in problems("\n".join(lines))[0]


def test_anchors_and_merged_mappings_are_understood(load):
    text = (
        "base: &base {keep_recent: 4, strategy: truncate}\nexecution:\n  context:\n    <<: *base\n    keep_recent: 5\n"
    )
    assert values(load(text)) == {"ladder.strategy": "truncate", "ladder.keep_messages": 5}


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigFileError, match="No such file or directory"):
        load_config_file(tmp_path / "none.yaml")
    with pytest.raises(ConfigFileError, match="null byte"):
        load_config_file("a\0b.yaml")
    with pytest.raises(ConfigFileError, match="Is a directory"):
        load_config_file(tmp_path)


def test_an_empty_file_says_nothing(load):
    assert values(load("# nothing\n")) == {}
    assert values(load("execution:\n  context:\nagents:\n", agent=None)) == {}


def test_the_same_setting_by_two_names_is_refused(problems):
    said = problems("execution:\n  context:\n    keep_recent: 4\n    ladder: {keep_messages: 5}\n")
    assert said[0].startswith("4:29: execution.context.ladder.keep_messages sets ladder.keep_messages, as ")
    assert said[0].endswith(":3 execution.context.keep_recent does: keep one of them.")


def test_a_brain_or_a_profile_that_is_given_twice_for_all_agents_is_refused(problems):
    brain = "{provider: p, model: m}"
    text = f"summary_brain: {brain}\nprofile: default\nexecution:\n  context: {{summary_brain: {brain}, profile: digitorn}}\n"
    assert problems(text) == [
        "4:13: execution.context.summary_brain is given by summary_brain too: keep one of them.",
        "4:53: execution.context.profile is given by profile too: keep one of them.",
    ]


def test_two_systems_in_one_file_need_a_profile(problems, load):
    text = "agent_max_steps: 3\nexecution: {context: {keep_recent: 4}}\n"
    assert problems(text) == [
        "1:1: the settings of cowagent and digitorn are both used here: say which defaults hold by profile."
    ]
    assert load(f"profile: cowagent\n{text}").profile == "cowagent"


def test_a_name_that_is_nearly_one_of_ours_is_asked_about_and_stops_nothing(load, tmp_path):
    assert load("triggrz: {mode: cost}\nresult: 3\n").warnings == (
        f"{tmp_path / 'app.yaml'}:1:1: triggrz is left alone, as another program's: did you mean triggers?",
        f"{tmp_path / 'app.yaml'}:2:1: result is left alone, as another program's: did you mean results?",
    )
    named = "executon: {}\nagent_max_step: 3\nexecution: {contxt: {}, hook: []}\nagents: [{brain: {contex: {}}}]\n"
    assert [warning.partition("yaml:")[2] for warning in load(named).warnings] == [
        "1:1: executon is left alone, as another program's: did you mean execution?",
        "2:1: agent_max_step is left alone, as another program's: did you mean agent_max_steps?",
        "3:13: execution.contxt is left alone, as another program's: did you mean context?",
        "3:25: execution.hook is left alone, as another program's: did you mean hooks?",
        "4:19: agents.0.brain.contex is left alone, as another program's: did you mean context?",
    ]
    (warning,) = load("brain: {model: m, context: {keep_recent: 3}}\n").warnings
    assert warning.endswith(":1:1: brain.context is left alone, as no agent's: put it into agents[].brain.context.")
    assert load("agent: true\nbrain: {model: m}\nexecution: {mode: chat, max_turns: 5, timeout: 3}\n").warnings == ()


def test_json_is_read_with_its_places_tabs_and_escapes(load, problems):
    text = '{\n\t"compression_prompt": "a\\u00e9\\ud83d\\ude00\\n\\/",\n\t"trigger_ratio": 5e-1}'
    assert values(load(text, "a.json")) == {"compression_prompt": "aé😀\n/", "trigger_ratio": 0.5}
    assert problems('{\n\t"window": {"max_tokns": 1},\n\t"trigger_ratio": 2}', "a.json") == [
        "2:13: window.max_tokns is unknown: did you mean max_tokens?",
        "3:19: trigger_ratio is 2: give a number above 0 and at most 0.9.",
    ]


@pytest.mark.parametrize(
    "name", ["digitorn-complete.yaml", "digitorn-two-levels.yaml", "cowagent.json", "openclaw.json", "own.yaml"]
)
def test_each_example_loads(name):
    environment = dict.fromkeys(("DEEPSEEK_API_KEY", "CTX_KEY"), SECRET) | {"CTX_TOKENS": "9000"}
    assert load_config_file(DATA / name, environment=environment).config()


def test_the_documents_numbers_come_out_of_its_own_files():
    assert values(load_config_file(DATA / "cowagent.json").config()) == {
        "triggers.max_tokens": 50_000,
        "triggers.max_turns": 20,
        "session.max_turns": 20,
        "history.max_tool_calls": 15,
    }
    loaded = load_config_file(DATA / "openclaw.json").config()
    assert values(loaded) == {
        "window.history_margin": 1.2,
        "window.history_ratio": 0.5,
        "window.reserve_floor_tokens": 20_000,
        "window.cap_tokens": 200_000,
        "retention.mode": "enforce",
        "history.channels": {
            "telegram": {"historyLimit": 50, "dmHistoryLimit": 20, "dms": {"123456": {"historyLimit": 5}}}
        },
    }


KEYS = st.sampled_from(
    "execution context hooks agents brain id summary_brain provider model config max_tokens strategy keep_recent condition"
    " action type on cooldown window triggers mode profile channels dms historyLimit session maintenance cost price ladder"
    " rungs memory retention <<".split()
)
LEAVES = (
    st.sampled_from(
        [
            "truncate",
            "always",
            "log",
            "digitorn",
            "{{env.A}}",
            "{{env.B}}",
            "*a",
            "!!python/object:os.system x",
            "~",
            "1e400",
            ".nan",
        ]
    )
    | st.text(max_size=8)
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=5)
)


def outcome(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    said: tuple[str, ...] = ()
    try:
        file = load_config_file(path, environment={"A": SECRET, "DEEPSEEK_API_KEY": "{{env.A}}", "CTX_TOKENS": "7000"})
    except ConfigFileError as exc:
        said = exc.problems
    else:
        loaded = [file.config(agent) for agent in (None, *file.agents)]
        assert all(isinstance(each, LoadedConfig) for each in loaded)
        assert not any(SECRET in repr(each.settings) + "".join(each.warnings) for each in loaded)
        return
    assert said
    assert not any(SECRET in line for line in said)
    assert all(line.startswith(f"{path}:") for line in said)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=st.dictionaries(KEYS, TREES, max_size=5), suffix=st.sampled_from(["json", "yaml"]))
def test_any_tree_gives_a_config_or_an_error_that_names_the_file(tmp_path, tree, suffix):
    outcome(tmp_path / f"any.{suffix}", json.dumps(tree).encode())


EXAMPLES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DATA.iterdir())}
SPLICES = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.integers(0, 30),
        st.sampled_from(
            ["{{env.A}}", "", "\n", "\n  ", ": ", "[", "{", "- ", "*base", "&a ", "null", "-1", "yes", "\t", "#", '"']
        )
        | st.text(max_size=4),
    ),
    min_size=1,
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(EXAMPLES)), splices=SPLICES)
@example(name="digitorn-two-levels.yaml", splices=[(1045, 0, "{{env.A}}")])  # in the id of a rule that compresses
def test_an_example_that_was_spoilt_gives_a_config_or_an_error_and_no_secret(tmp_path, name, splices):
    text = EXAMPLES[name]
    for place, length, put in splices:
        start = place % (len(text) + 1)
        text = text[:start] + put + text[start + length :]
    outcome(tmp_path / name, text.encode("utf-8", "surrogatepass"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60)
    | st.text(alphabet="ab:-{}[]&*!'\"\n\t #|>?,%@`<1.e\x85\u2028", max_size=60).map(str.encode)
)
@example(content=b"? &a\n: *a\n")
@example(content=b"%YAML 9.9\n---\na: 1\n")
@example(content=b"a: 190:20:30\nb: 0x_\n")
def test_any_bytes_give_a_config_or_an_error_that_names_the_file(tmp_path, content):
    for suffix in ("yaml", "json"):
        outcome(tmp_path / f"any.{suffix}", content)


def test_an_unknown_agent_is_not_answered_with_a_name_from_the_environment(load):
    with pytest.raises(ConfigError, match=r"names no agent 'sk': did you mean \{\{env.KEY\}\}\?"):
        load("agents: [{id: '{{env.KEY}}'}]\n", agent="sk", KEY="sk-1")


def test_an_unknown_agent_is_refused_where_there_are_none(load):
    with pytest.raises(ConfigError, match="names no agent 'x': it names none"):
        load("profile: default\n", agent="x")
