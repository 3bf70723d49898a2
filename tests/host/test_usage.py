"""What the host's model classes report as input tokens."""

import inspect

import agentscope.model
import pytest
from agentscope.model import ChatModelBase, ChatUsage

from ctxkit.host._usage import CACHE_IS_IN_INPUT, input_tokens_of

CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(agentscope.model, inspect.isclass)
    if issubclass(kind, ChatModelBase) and kind is not ChatModelBase
}


def usage(*, read: int | None, written: int | None) -> ChatUsage:
    return ChatUsage(
        input_tokens=100, output_tokens=5, time=0.0, cache_input_tokens=read, cache_creation_input_tokens=written
    )


def a_model(kind: type[ChatModelBase]) -> ChatModelBase:
    return kind.__new__(kind)


def test_every_model_class_of_the_host_has_a_known_habit():
    assert set(CLASSES) <= set(CACHE_IS_IN_INPUT)


@pytest.mark.parametrize("name", CLASSES)
def test_cached_tokens_are_counted_once(name):
    expected = 100 if CACHE_IS_IN_INPUT[name] else 100 + 30 + 7

    assert input_tokens_of(usage(read=30, written=7), a_model(CLASSES[name])) == expected


def test_a_subclass_has_the_habit_of_the_class_it_extends():
    class Mine(agentscope.model.AnthropicChatModel):
        pass

    assert input_tokens_of(usage(read=30, written=7), a_model(Mine)) == 137


def test_cache_counts_that_were_not_sent_are_zero():
    assert input_tokens_of(usage(read=None, written=None), a_model(agentscope.model.AnthropicChatModel)) == 100


@pytest.mark.parametrize(("read", "expected"), [(60, 100), (4000, 4100)])
def test_of_an_unknown_model_cached_tokens_are_added_only_where_they_cannot_be_a_part(read, expected):
    class Unknown(ChatModelBase):
        async def _call_api(self, *args, **kwargs):
            raise AssertionError("not called")

    assert input_tokens_of(usage(read=read, written=0), a_model(Unknown)) == expected
