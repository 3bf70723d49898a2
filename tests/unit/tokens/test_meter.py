"""The meter is cheap where little is new, sees what was replaced, and is right after a report."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from typing import Any

import pytest

from ctxkit.tokens import BlockScale, ByteCounter, ContentClass, Counter, Meter, Weight, default_counter
from tests.unit.tokens.samples import (
    KINDS,
    WordCounter,
    call_block,
    data_block,
    message,
    png,
    result_block,
    text_block,
)

MODEL = "OpenAIChatModel:gpt-5"
TOOLS = [{"type": "function", "function": {"name": f"tool_{i}", "description": "Does one thing."}} for i in range(5)]


class Fresh:
    """Makes texts that no other test has counted, for counts are remembered over the whole process."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._made = 0

    def text(self, words: int = 5) -> str:
        self._made += 1
        return f"{self._tag} {self._made} " + "word " * (words - 2)


async def from_scratch(messages: list[Any], counter: Counter) -> Weight:
    return await Meter(counter).weigh_request(messages, TOOLS, model_key=MODEL)


def conversation(fresh: Fresh, messages: int) -> list[Any]:
    return [message(text_block(fresh.text()), text_block(fresh.text())) for _ in range(messages)]


@pytest.mark.asyncio
async def test_one_more_message_is_all_that_is_counted() -> None:
    fresh, counter = Fresh("grows"), WordCounter()
    meter, messages = Meter(counter), conversation(fresh, 200)
    before = await meter.weigh_request(messages, TOOLS, model_key=MODEL)
    counter.calls.clear()

    messages.append(message(text_block(fresh.text(7))))
    after = await meter.weigh_request(messages, TOOLS, model_key=MODEL)

    assert len(counter.calls) == 1
    assert (after - before)[ContentClass.PROSE] == 7


@pytest.mark.asyncio
async def test_one_more_block_in_a_long_reply_is_all_that_is_counted() -> None:
    fresh, counter = Fresh("reply"), WordCounter()
    reply = message(*(text_block(fresh.text()) for _ in range(500)))
    meter = Meter(counter)
    await meter.weigh_request([message(text_block("go")), reply], model_key=MODEL)
    counter.calls.clear()

    reply.content.append(text_block(fresh.text()))
    await meter.weigh_request([message(text_block("go")), reply], model_key=MODEL)

    assert len(counter.calls) == 1


@pytest.mark.asyncio
async def test_old_blocks_are_not_even_looked_at() -> None:
    class Touchy:
        type = "text"
        looks = 0

        @property
        def text(self) -> str:
            Touchy.looks += 1
            return "hello"

    meter = Meter(WordCounter())
    messages = [message(Touchy()) for _ in range(50)]
    await meter.weigh_request(messages, model_key=MODEL)
    Touchy.looks = 0

    # The host makes the system message anew for each request.
    messages[0] = message(Touchy())
    await meter.weigh_request([*messages, message(Touchy())], model_key=MODEL)

    assert Touchy.looks == 3  # the first, the new one, and the one that was last


def edits(fresh: Fresh) -> list[tuple[str, Any]]:
    def replace_block(messages: list[Any]) -> None:
        messages[3].content[-1] = text_block(fresh.text(9))

    def replace_content(messages: list[Any]) -> None:
        messages[3].content = [text_block(fresh.text(11))]

    def replace_message(messages: list[Any]) -> None:
        messages[5] = message(text_block(fresh.text(12)), role="user", name="somebody else")

    def drop_first_half(messages: list[Any]) -> None:
        del messages[:20]

    def drop_last(messages: list[Any]) -> None:
        del messages[-3:]

    def insert_in_front(messages: list[Any]) -> None:
        messages.insert(1, message(text_block(fresh.text(20))))

    def copy_all(messages: list[Any]) -> None:
        messages[:] = copy.deepcopy(messages)

    def reverse(messages: list[Any]) -> None:
        messages.reverse()

    def clear(messages: list[Any]) -> None:
        messages.clear()

    every = (
        replace_block,
        replace_content,
        replace_message,
        drop_first_half,
        drop_last,
        insert_in_front,
        copy_all,
        reverse,
        clear,
    )
    return [(edit.__name__, edit) for edit in every]


@pytest.mark.asyncio
@pytest.mark.parametrize("name", [name for name, _ in edits(Fresh("names"))])
async def test_after_any_edit_the_weight_is_that_of_the_request_as_it_stands(name: str) -> None:
    fresh, counter = Fresh(f"edit {name}"), WordCounter()
    meter, messages = Meter(counter), conversation(fresh, 40)
    await meter.weigh_request(messages, TOOLS, model_key=MODEL)

    dict(edits(fresh))[name](messages)

    assert await meter.weigh_request(messages, TOOLS, model_key=MODEL) == await from_scratch(messages, counter)


@pytest.mark.asyncio
async def test_after_many_random_edits_the_weight_is_still_exact() -> None:
    fresh, counter, rnd = Fresh("random"), WordCounter(), random.Random(3)
    meter, messages = Meter(counter), conversation(fresh, 30)
    for _ in range(150):
        if rnd.random() < 0.4:
            rnd.choice(edits(fresh)[:7])[1](messages)
        messages.extend(conversation(fresh, rnd.randint(0, 12)))
        if len(messages) < 30:
            messages.extend(conversation(fresh, 30))

        assert await meter.weigh_request(messages, TOOLS, model_key=MODEL) == await from_scratch(messages, counter)


@pytest.mark.asyncio
async def test_a_running_result_and_the_last_block_are_seen_growing() -> None:
    counter = WordCounter()
    running, last = result_block("one two", state="running"), text_block("one")
    messages = [message(call_block("{}"), running, text_block("between"), last)]
    meter = Meter(counter)
    await meter.weigh_request(messages, TOOLS, model_key=MODEL)

    running.output, last.text = "one two three four", "one two"
    grown = await meter.weigh_request(messages, TOOLS, model_key=MODEL)
    running.output, running.state = "one two three four five", "success"
    done = await meter.weigh_request(messages, TOOLS, model_key=MODEL)

    assert done == await from_scratch(messages, counter)
    assert done.total - grown.total == 1


@pytest.mark.asyncio
async def test_results_that_say_for_ever_that_they_run_are_not_weighed_again() -> None:
    class Counting(WordCounter):
        looks = 0

        @property
        def name(self) -> str:
            self.looks += 1
            return "counting"

    counter = Counting()
    messages = [message(call_block("{}"), result_block(f"text {i}", state="running")) for i in range(2000)]
    meter = Meter(counter)
    for _ in range(2):
        await meter.weigh_request(messages, TOOLS, model_key=MODEL)
    before = counter.looks
    await meter.weigh_request(messages, TOOLS, model_key=MODEL)

    assert counter.looks - before < 1000


@pytest.mark.asyncio
async def test_a_cancelled_call_leaves_the_meter_right() -> None:
    fresh, counter = Fresh("cancel"), WordCounter()
    meter, messages = Meter(counter), conversation(fresh, 20)
    await meter.weigh_request(messages, TOOLS, model_key=MODEL)
    # Every piece is another one: what is remembered would be counted at one go.
    messages.append(message(text_block(" ".join(map(str, range(1_000_000))))))

    task = asyncio.create_task(meter.weigh_request(messages, TOOLS, model_key=MODEL))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    del messages[-1]
    assert await meter.weigh_request(messages, TOOLS, model_key=MODEL) == await from_scratch(messages, counter)


@pytest.mark.asyncio
async def test_an_image_is_weighed_by_the_model_that_gets_it() -> None:
    meter = Meter(WordCounter())
    messages = [message(data_block(png(1000, 1000), "image/png"))]

    openai = await meter.weigh_request(messages, model_key="OpenAIChatModel:gpt-4o")
    claude = await meter.weigh_request(messages, model_key="AnthropicChatModel:claude-opus-5")

    assert (openai[ContentClass.MEDIA], claude[ContentClass.MEDIA]) == (765, 1334)


def weight(**parts: float) -> Weight:
    return Weight.of({ContentClass(name): tokens for name, tokens in parts.items()})


def test_before_any_report_the_estimate_is_the_priors_total() -> None:
    assert Meter(WordCounter()).estimate(weight(prose=90, frame=10), model_key=MODEL) == 100


def test_an_unchanged_request_is_estimated_as_reported() -> None:
    meter, request = Meter(WordCounter()), weight(prose=9000, json=4000, frame=100)
    meter.learn(request, 15_432, model_key=MODEL)

    assert meter.estimate(request, model_key=MODEL) == 15_432


def test_models_are_anchored_apart() -> None:
    meter, request = Meter(WordCounter()), weight(prose=10_000)
    meter.learn(request, 12_000, model_key=MODEL)

    assert meter.estimate(request, model_key="AnthropicChatModel:claude-opus-5") == 10_000


def test_a_huge_removal_does_not_leave_the_whole_error_on_the_little_that_stays() -> None:
    meter = Meter(WordCounter())
    meter.learn(weight(prose=100_000, log=100_000), 260_000, model_key=MODEL)

    estimate = meter.estimate(weight(prose=2000, log=2000), model_key=MODEL)

    assert estimate == pytest.approx(5200, rel=0.01)


@pytest.mark.parametrize("nonsense", [0, -5, 1, 70_000, True, None, 3.5, float("nan"), "9000"])
def test_a_nonsense_report_is_ignored_and_what_was_known_stays(nonsense: Any) -> None:
    meter, request = Meter(WordCounter()), weight(prose=10_000)
    meter.learn(request, 11_000, model_key=MODEL)

    assert not meter.learn(request, nonsense, model_key=MODEL)
    assert meter.estimate(request, model_key=MODEL) == 11_000


def test_the_smallest_window_learnt_wins() -> None:
    meter = Meter(WordCounter())
    for tokens in (32_000, 30_000, 31_000, 0, -1):
        meter.learn_limit(MODEL, tokens)

    assert (meter.limit(MODEL, 128_000), meter.limit(MODEL, 8000), meter.limit("other", 128_000)) == (
        30_000,
        8000,
        128_000,
    )


def test_the_state_is_small_plain_json_and_restores_what_was_learnt() -> None:
    meter = Meter(WordCounter())
    rnd = random.Random(1)
    key = ""
    for i in range(30):
        key = f"OpenAIChatModel:a-fine-tuned-model-with-a-long-name-{i}"
        for _ in range(5):
            request = weight(prose=rnd.randint(1, 10**6), code=rnd.randint(1, 10**6), cjk=rnd.randint(1, 10**6))
            meter.learn(request, int(request.total * 0.87), model_key=key)
        meter.learn_limit(key, 100_000 + i)

    saved = json.dumps(meter.state())
    restored = Meter(WordCounter())
    restored.load(json.loads(saved))

    request = weight(prose=5000, code=70_000, cjk=300)
    assert len(saved) < 4000
    assert restored.estimate(request, model_key=key) == pytest.approx(meter.estimate(request, model_key=key), rel=1e-3)
    assert restored.limit(key, 10**6) == meter.limit(key, 10**6)


@pytest.mark.parametrize(
    "junk",
    [
        None,
        [],
        {"version": 99, "models": {"a": {}}},
        {"version": 1},
        {"version": 1, "models": [1], "limits": "x"},
        {
            "version": 1,
            "models": {"a": None, "b": {"tokens": -1}, "c": {"tokens": 5, "weight": [1]}},
            "limits": {"a": "b"},
        },
    ],
)
def test_junk_loads_as_nothing_learnt(junk: Any) -> None:
    meter = Meter(WordCounter())
    meter.load(junk)

    assert [meter.estimate(weight(log=50), model_key=key) for key in "abc"] == [50, 50, 50]
    assert meter.limit("a", 10) == 10


class Provider:
    """Says the true tokens of a request, by its own tokenizer and framing."""

    def __init__(self, counter: Counter) -> None:
        self._scale = BlockScale(counter)

    async def tokens(self, messages: list[Any]) -> int:
        whole = [await self._scale.weigh_message(each) for each in messages]
        return int(Weight.sum(whole).total + (await self._scale.weigh_tools(TOOLS)).total) + 11


async def errors(provider: Provider, *, seed: int, steps: int = 80) -> list[float]:
    """Run an agent whose context grows and is now and then cut, and return each estimate's error after the first."""
    rnd = random.Random(seed)
    meter = Meter(default_counter())
    messages = [message(text_block(KINDS["prose"][0](seed, 4000)), role="system")]
    found = []
    for step in range(steps):
        kind = rnd.choice(list(KINDS))
        text = KINDS[kind][0](seed * 1000 + step, min(20_000, int(rnd.lognormvariate(8, 0.8))))
        messages.append(message(call_block(json.dumps({"path": f"/srv/{step}"}), id=f"c{step}"), result_block(text)))
        if step % 20 == 19:
            del messages[1 : len(messages) * 2 // 3]
        request = await meter.weigh_request(messages, TOOLS, model_key=MODEL)
        truth = await provider.tokens(messages)
        if step:
            found.append(abs(meter.estimate(request, model_key=MODEL) - truth) / truth)
        assert meter.learn(request, truth, model_key=MODEL)
    return sorted(found)


@pytest.mark.row("X8")
@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(3))
async def test_with_the_priors_own_tokenizer_the_95th_percentile_error_is_below_one_percent(seed: int) -> None:
    found = await errors(Provider(default_counter()), seed=seed)

    assert found[int(len(found) * 0.95)] <= 0.01


@pytest.mark.row("X8")
@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(3))
async def test_a_foreign_tokenizer_is_learnt_to_within_a_few_percent(o200k: Counter, seed: int) -> None:
    found = await errors(Provider(o200k), seed=seed)

    assert found[int(len(found) * 0.95)] <= 0.03


def test_a_window_smaller_than_what_was_just_taken_is_not_believed():
    meter = Meter(ByteCounter())
    meter.learn_taken("m", 5_000)
    meter.learn_limit("m", 100)
    assert meter.limit("m", 32_000) == 32_000
    meter.learn_limit("m", 8_000)
    assert meter.limit("m", 32_000) == 8_000


def test_a_window_grows_again_when_a_larger_request_is_taken():
    meter = Meter(ByteCounter())
    meter.learn_limit("m", 8_000)
    meter.learn_taken("m", 7_999)
    assert meter.limit("m", 32_000) == 8_000
    meter.learn_taken("m", 9_000)
    assert meter.limit("m", 32_000) == 32_000
