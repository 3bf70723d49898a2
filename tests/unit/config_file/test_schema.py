"""The JSON schema of the format: current, valid, and of one mind with the loader."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
import yaml

from ctxkit.config_file.nodes import parse
from ctxkit.config_file.schema import config_schema
from ctxkit.rules import RuleKinds

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "config"


def tree(path: Path) -> object:
    """Return a file as an editor sees it: YAML 1.2, in which `on` is a word."""

    def value(node):
        if node.entries is not None:
            return {key: value(entry.node) for key, entry in node.entries.items()}
        return node.value if node.items is None else [value(item) for item in node.items]

    return value(parse(path.read_text(encoding="utf-8"), is_json=path.suffix == ".json", tell=print))


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = config_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_published_schema_is_current():
    published = json.loads((ROOT / "docs" / "reference" / "config.schema.json").read_text(encoding="utf-8"))
    assert published == config_schema(), "run: ctxkit config schema > docs/reference/config.schema.json"


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.name)
def test_each_example_is_valid(validator, path):
    assert [error.message for error in validator.iter_errors(tree(path))] == []


@pytest.mark.parametrize(
    "text",
    [
        "execution: {context: {keep_recnt: 4}}",
        "execution: {context: {strategy: drop}}",
        "execution: {context: {max_tokens: many}}",
        "execution: {context: {summary_brain: {provider: x}}}",
        "execution: {context: {summary_brain: {provider: x, model: y, modal: z}}}",
        "hooks: [{id: a, condition: {type: alwaz}, action: {type: compact_context}}]",
        "hooks: [{id: a, condition: {type: context_pressure}, action: {type: compact_context}}]",
        "hooks: [{condition: {type: always}, action: {type: compact_context}}]",
        "triggers: {mod: cost}",
        "ladder: {rungs: [jump]}",
        "profile: openclw",
        "agents: [{brain: {context: {keep_recent: x}}}]",
        "channels: 3",
    ],
)
def test_what_the_loader_refuses_by_name_or_type_an_editor_marks_too(validator, text):
    assert not validator.is_valid(yaml.safe_load(text))


def test_every_field_says_what_it_is(validator):
    for name, shape in validator.schema["$defs"].items():
        for field, inner in shape.get("properties", {}).items():
            assert name == "context" or "description" in inner or "$ref" in inner or "oneOf" in inner, (name, field)


def test_own_kinds_of_rules_stand_in_a_schema_of_ones_own():
    kinds = RuleKinds()

    @kinds.condition("quiet")
    @dataclass(frozen=True)
    class Quiet:
        below: int

        def is_met(self, facts: object) -> bool:
            return True

    rule = {"id": "a", "condition": {"type": "quiet", "below": 3}, "action": {"type": "compact_context"}}
    assert jsonschema.Draft202012Validator(config_schema(kinds=kinds)).is_valid({"hooks": [rule]})
    assert not jsonschema.Draft202012Validator(config_schema()).is_valid({"hooks": [rule]})
