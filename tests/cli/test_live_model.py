"""`examples/live_model.py`: the demo's story with any model of AgentScope's."""

from __future__ import annotations

import importlib.util
import re
import sysconfig
from pathlib import Path

import pytest

from ctxkit.cli.story import answer_from, expected_answer, recall_query
from ctxkit.testing import ScriptedModel, call

EXAMPLE = Path(__file__).parents[2] / "examples" / "live_model.py"
EXPECTED = expected_answer(Path(sysconfig.get_path("stdlib")))
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DASHSCOPE_API_KEY")


@pytest.fixture
def example(monkeypatch):
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    spec = importlib.util.spec_from_file_location("live_model", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.asyncio
async def test_without_a_key_it_says_what_to_set(example, capsys):
    await example.main()
    said = capsys.readouterr().out
    assert [key for key in KEYS if key not in said] == []


@pytest.mark.parametrize(
    ("key", "model"),
    [
        ("OPENAI_API_KEY", "OpenAIChatModel"),
        ("ANTHROPIC_API_KEY", "AnthropicChatModel"),
        ("DASHSCOPE_API_KEY", "DashScopeChatModel"),
    ],
)
def test_a_key_gives_the_model_of_its_provider(example, monkeypatch, key, model):
    monkeypatch.setenv(key, "not-a-real-key")
    assert type(example.model_from_environment()).__name__ == model


@pytest.mark.asyncio
async def test_any_model_can_take_the_survey(example, tmp_path, capsys):
    def answer(messages):
        outputs = [block.output for message in messages for block in message.get_content_blocks("tool_result")]
        return answer_from("".join(piece.text for piece in output) for output in reversed(outputs))

    script = [
        call("inventory"),
        call("Read", file_path=str(example.LIBRARY / "ssl.py")),
        "Surveyed.",
        *(
            call("Read", file_path=str(example.LIBRARY / name))
            for name in ("ast.py", "enum.py", "inspect.py", "csv.py")
        ),
        "Surveyed, too.",
        call("search_context", query=recall_query()),
        answer,
    ]
    await example.survey(ScriptedModel(script, context_size=128_000, enforce="cl100k"), str(tmp_path))
    said = capsys.readouterr().out
    assert re.search(r"compressed \d+ to \d+ tokens", said)
    assert f"agent: {EXPECTED}" in said
