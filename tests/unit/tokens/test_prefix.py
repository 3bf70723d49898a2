"""The prefix audit: what two requests begin with together, and what ended it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxkit.tokens import ByteCounter
from ctxkit.tokens.prefix import WireRequest, prefix_audit

pytestmark = pytest.mark.asyncio

COUNTER = ByteCounter()


def tool(name: str, description: str = "Does it.") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description}}


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def request(
    *texts: str, tools: tuple[str, ...] = ("read", "write"), prompt: str = "You help.", **changes: Any
) -> WireRequest:
    return WireRequest(
        messages=[message(prompt, "system"), *map(message, texts)],
        tools=[tool(name) for name in tools],
        **{"layers": ["system prompt"], **changes},
    )


async def audited(before: WireRequest, after: WireRequest):
    return await prefix_audit(before, after, counter=COUNTER)


async def test_a_request_that_goes_on_is_stable_to_the_last_byte():
    audit = await audited(request("one"), request("one", "two"))

    assert (audit.component, audit.path, audit.position, audit.share) == (None, "", None, 1.0)
    assert audit.stable_bytes == audit.total_bytes
    assert audit.stable_tokens > 0


@pytest.mark.parametrize(
    ("after", "component", "path"),
    [
        pytest.param(request("one", "two", prompt="You rule."), "system prompt", "content[0].text", id="prompt"),
        pytest.param(request("one", "2"), "message 2 (user)", "content[0].text", id="message"),
        pytest.param(request("one"), "message 2 (user)", "", id="gone"),
        pytest.param(
            request("one", "two", tools=("read", "late", "write")), "tool 'late'", "function.name", id="new tool"
        ),
        pytest.param(request("one", "two", tools=("write",)), "tool 'read'", "function.name", id="tool gone"),
        pytest.param(
            request("one", "two", tools=("write", "read")),
            "tool 'read', whose place changed",
            "function.name",
            id="order",
        ),
    ],
)
async def test_the_first_component_that_differs_is_named(after, component, path):
    audit = await audited(request("one", "two"), after)

    assert (audit.component, audit.path) == (component, path)
    assert 0 <= audit.share < 1


async def test_a_schema_that_changes_is_named_by_its_tool():
    before = request("one")
    after = WireRequest(messages=before.messages, tools=[tool("read"), tool("write", "Does more.")])

    audit = await audited(before, after)

    assert (audit.component, audit.path) == ("tool 'write'", "function.description")


async def test_the_summary_layer_goes_by_its_name():
    layers = ["system prompt", "summary"]

    audit = await audited(request("summary 1", "x", layers=layers), request("summary 2", "x", layers=layers))

    assert audit.component == "summary"


async def test_the_position_is_that_of_the_first_byte_that_differs():
    before = WireRequest(messages=[message("für Köln"), message("Grüße")])
    after = WireRequest(messages=[message("für Köln"), message("Grüne")])

    audit = await audited(before, after)

    raw = "".join(json.dumps(one, ensure_ascii=False) for one in before.messages).encode()
    assert raw[: audit.position].decode().endswith("Grü")
    assert audit.stable_bytes == audit.position
    assert audit.total_bytes == len(raw)


async def test_a_last_message_that_only_goes_on_is_stable():
    grown = {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}

    audit = await audited(request("one"), WireRequest(messages=[request().messages[0], grown], tools=request().tools))

    assert audit.share == 1.0


async def test_what_json_cannot_hold_is_compared_as_text():
    class Odd:
        def __str__(self) -> str:
            return "odd"

    audit = await audited(WireRequest(messages=[Odd(), "\ud800"]), WireRequest(messages=[Odd(), "\ud800", "more"]))

    assert audit.share == 1.0


async def test_the_result_is_plain_json():
    audit = await audited(request("one"), request("two"))

    assert json.loads(json.dumps(audit.to_json()))["share"] == audit.share


TEXTS = st.lists(st.text(max_size=12), max_size=6)


@given(before=TEXTS, after=TEXTS)
async def test_what_is_stable_is_really_shared_and_all_of_it(before, after):
    one, other = (WireRequest(messages=texts) for texts in (before, after))

    audit = await audited(one, other)

    dumps = [[json.dumps(text, ensure_ascii=False) for text in texts] for texts in (before, after)]
    whole, new = ("".join(parts) for parts in dumps)
    stable = whole.encode("utf-8", "surrogatepass")[: audit.stable_bytes]
    assert audit.total_bytes == len(whole.encode("utf-8", "surrogatepass"))
    assert (audit.component is None) == (audit.share == 1.0) == (audit.position is None)
    if dumps[1][: len(before)] == dumps[0]:
        assert audit.share == 1.0
    elif audit.component is not None:
        assert new.encode("utf-8", "surrogatepass").startswith(stable)


@given(texts=TEXTS, more=TEXTS)
async def test_what_is_only_appended_to_never_breaks(texts, more):
    audit = await audited(WireRequest(messages=texts), WireRequest(messages=[*texts, *more]))

    assert (audit.component, audit.share) == (None, 1.0)
