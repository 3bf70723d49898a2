"""Promises of an offloader to one agent: what it took is there, whole, once, under a reference that can be used."""

import asyncio
from typing import Any, Final

import pytest
from agentscope.message import (
    AssistantMsg,
    HintBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMsg,
)

from ctxkit.testing.suites._base import Bench, promise
from ctxkit.testing.suites._offloader import (
    SESSION,
    OffloaderPart,
    must_take_media,
    picture,
    result,
    said,
    store_messages,
    usable,
    words_in,
)
from ctxkit.testing.suites._samples import HOSTILE_IDS

_SURROGATES: Final = "lone \ud83d and \udc00"
_LONG_CHARS: Final = 500_000
"""A store may put what is longer beside its log, and name it there."""
_WORDS: Final = [f"word{number}" for number in range(10)]


class ContentPromises(OffloaderPart):
    """What `offload_context` and `offload_tool_result` promise."""

    @promise
    async def test_messages_come_back_whole_and_in_order(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        reference = await store_messages(offloader, _WORDS)
        assert words_in(await self.text(offloader, reference), _WORDS) == _WORDS

    @promise
    async def test_a_tool_result_comes_back_whole(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        reference = usable(await offloader.offload_tool_result(SESSION, result("first", text="last")))
        found = await self.text(offloader, reference)
        assert words_in(found + " ", ["first", "last"]) == ["first", "last"]
        plain = usable(
            await offloader.offload_tool_result(SESSION, ToolResultBlock(id="call_2", name="Bash", output="plain"))
        )
        assert "plain" in await self.text(offloader, plain), "an output may be a str, too"

    @promise
    async def test_a_second_call_keeps_what_the_first_one_stored(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        stored = {}
        for number, word in enumerate(_WORDS):
            stored[word] = await store_messages(offloader, [word, f"x{number}"])
        for word, reference in stored.items():
            found = await self.text(offloader, reference)
            assert words_in(found, [word]) == [word], "a later call has overwritten what an earlier one stored"

    @promise
    async def test_messages_that_come_again_are_stored_once(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        messages = [said(word) for word in _WORDS]
        first = usable(await offloader.offload_context(SESSION, msgs=messages))
        second = usable(await offloader.offload_context(SESSION, msgs=messages))
        third = usable(await offloader.offload_context(SESSION, msgs=[*messages[-2:], said("next")]))
        found = await self.text(offloader, first, second, third)
        assert words_in(found, [*_WORDS, "next"]) == [*_WORDS, "next"], (
            "a call that failed, timed out or was cancelled is repeated: what is there already must not be stored again"
        )

    @promise
    async def test_a_result_that_comes_again_is_stored_once(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        block = result("word")
        first = await offloader.offload_tool_result(SESSION, block)
        assert await offloader.offload_tool_result(SESSION, block) == first, "the same result has one reference"

    @promise
    async def test_another_result_under_the_same_id_keeps_the_first(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        stored = {word: await offloader.offload_tool_result(SESSION, result(word)) for word in ("one", "two", "three")}
        for word, reference in stored.items():
            found = await self.text(offloader, usable(reference))
            assert words_in(found, ["one", "two", "three"]) == [word], "results of one id were mixed up or overwritten"

    @promise
    async def test_sessions_share_nothing(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        logs = {session: await store_messages(offloader, ["word"], session=session) for session in ("one", "two")}
        results = {
            session: usable(await offloader.offload_tool_result(session, result(session))) for session in ("one", "two")
        }
        for session in ("one", "two"):
            log = await self.text(offloader, logs[session])
            assert words_in(log, ["one", "two"]) == [session], "the log has another session's messages"
            assert words_in(await self.text(offloader, results[session]), ["one", "two"]) == [session]

    @promise
    async def test_any_text_is_a_session_of_its_own(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        stored = {}
        words = [f"word{number}" for number in range(len(HOSTILE_IDS))]
        for session, word in zip(HOSTILE_IDS, words, strict=True):
            log = usable(await offloader.offload_context(session, msgs=[said(word)]))
            kept = usable(await offloader.offload_tool_result(session, result(word, call_id="call_1")))
            stored[session] = (word, log, kept)
        for session, (word, *references) in stored.items():
            for reference in references:
                found = words_in(await self.text(offloader, reference), words)
                assert found == [word], f"session {session[:40]!r} has another one's content, or lost its own"
        escaped = await asyncio.to_thread(bench.escaped)
        assert escaped == [], "a session id reached outside of the place"

    @promise
    async def test_any_text_is_the_id_of_a_call(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        stored = {}
        for number, call_id in enumerate(HOSTILE_IDS):
            block = result(f"word{number}", call_id=call_id)
            stored[call_id] = usable(await offloader.offload_tool_result(SESSION, block))
        for number, (call_id, reference) in enumerate(stored.items()):
            found = await self.text(offloader, reference)
            assert words_in(found, [f"word{number}"]), f"call {call_id[:40]!r} has another one's result"
        escaped = await asyncio.to_thread(bench.escaped)
        assert escaped == [], "the id of a call, which the model's provider gives, reached outside of the place"

    @promise
    async def test_lone_surrogates_fail_nothing(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        reference = usable(await offloader.offload_context(SESSION, msgs=[said("word", text=_SURROGATES)]))
        assert words_in(await self.text(offloader, reference), ["word"])
        reference = usable(await offloader.offload_tool_result(SESSION, result("other", text=_SURROGATES)))
        assert words_in(await self.text(offloader, reference), ["other"])

    @promise
    async def test_blocks_of_every_kind_are_taken(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        words = ["asked ", "thought ", "argument ", "given ", "hinted ", "said "]
        answer = AssistantMsg(
            name="bob",
            content=[
                ThinkingBlock(thinking=words[1]),
                ToolCallBlock(id="call_1", name="Bash", input='{"command": "argument "}'),
                result("given"),
                HintBlock(hint=words[4]),
                TextBlock(text=words[5]),
            ],
        )
        messages = [UserMsg(name="user", content=words[0]), answer]
        reference = usable(await offloader.offload_context(SESSION, msgs=messages))
        found = await self.text(offloader, reference)
        assert [word for word in words if word not in found] == [], "what these blocks say is not there"

    @promise
    async def test_little_and_much_is_taken(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        usable(await offloader.offload_context(SESSION, msgs=[]))
        usable(await offloader.offload_tool_result(SESSION, ToolResultBlock(id="call_0", name="Bash", output="")))
        long = "x" * _LONG_CHARS + " tail "
        reference = usable(await offloader.offload_context(SESSION, msgs=[said("word", text=long)]))
        assert words_in(await self.text(offloader, reference), ["word", "tail"]) == ["word", "tail"]
        reference = usable(await offloader.offload_tool_result(SESSION, result("word", text=long)))
        assert words_in(await self.text(offloader, reference), ["word", "tail"]) == ["word", "tail"]

    @promise
    async def test_what_is_passed_in_is_not_changed(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        message = UserMsg(name="user", content=[TextBlock(text="word "), picture()])
        block = ToolResultBlock(id="call_1", name="Bash", output=[TextBlock(text="word "), picture()])
        before = message.model_dump(), block.model_dump()
        await offloader.offload_context(SESSION, msgs=[message])
        await offloader.offload_tool_result(SESSION, block)
        assert (message.model_dump(), block.model_dump()) == before, "the agent still has what it passes"


class MediaPromises(OffloaderPart):
    """What `offload_data_block` promises, where there is one."""

    @promise
    async def test_media_become_a_url(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        must_take_media(offloader)
        block = picture()
        stored = await offloader.offload_data_block(block)
        assert stored.source.type == "url", "media in base64 come back as a block with a URL"
        assert (stored.name, stored.source.media_type) == (block.name, block.source.media_type)
        assert block.source.type == "base64", "what is passed in is not changed"
        assert await offloader.offload_data_block(stored) == stored, "a block with a URL comes back as it is"

    @promise
    async def test_the_same_media_are_stored_once_and_others_apart(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        must_take_media(offloader)
        same = await asyncio.gather(*(offloader.offload_data_block(picture()) for _ in range(16)))
        assert len({str(one.source.url) for one in same}) == 1, "the same image has one URL"
        other = await offloader.offload_data_block(picture("iVBORw0KGgA="))
        assert str(other.source.url) != str(same[0].source.url), "another image has another URL"

    @promise
    async def test_media_that_are_no_base64_fail_nothing(self, bench: Bench[Any]) -> None:
        offloader = await bench.open()
        must_take_media(offloader)
        try:
            stored = await offloader.offload_data_block(picture("no base64!"))
        except Exception as exc:  # noqa: BLE001 - that it raises is the failure
            pytest.fail(f"{type(exc).__name__}: {exc}. What a model's provider sends is not always what it says")
        assert stored.source.type in {"url", "base64"}
