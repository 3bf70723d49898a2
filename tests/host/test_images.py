"""Images: stored once by content, at most `max_image_num` in the context, counted by the provider's rule (row A10)."""

import base64
import hashlib
import struct
import zlib

import pytest
from agentscope.message import AssistantMsg, Base64Source, DataBlock, HintBlock, TextBlock, ToolResultBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.tool import ToolChunk

from ctxkit import CompressionMiddleware, ContextConfig, LocalWorkspace, OffloadConfig
from ctxkit.testing import ScriptedModel, call
from tests.host.agents import applied, events_of, make_agent, memory_offloader, orphans, receipts, text_of, told, user

pytestmark = [pytest.mark.asyncio, pytest.mark.row("A10")]


def png(number: int, *, side: int = 64) -> bytes:
    """Return a picture of one grey, another for each number."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + bytes([number % 256]) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * side)) + chunk(b"IEND", b"")


def image(number: int, **settings) -> DataBlock:
    data = base64.b64encode(png(number, **settings)).decode()
    return DataBlock(source=Base64Source(data=data, media_type="image/png"), name=f"picture-{number}.png")


def images_in(messages) -> list[str]:
    """Return the names of all images in messages, in order."""
    names = []
    for message in messages:
        for block in message.content:
            inside = block.output if block.type == "tool_result" else block.hint if block.type == "hint" else [block]
            names.extend(piece.name for piece in inside if not isinstance(piece, str) and piece.type == "data")
    return names


def digest(number: int) -> str:
    return hashlib.sha256(png(number)).hexdigest()


def pictures(*numbers: int) -> list[str]:
    return [f"picture-{number}.png" for number in numbers]


def show(number: int) -> ToolChunk:
    """Show a picture.

    Args:
        number (int): Which one.
    """
    return ToolChunk(content=[TextBlock(text=f"This is picture {number}."), image(number)])


class TwoMethods:
    """An offloader as the seed has it: context and tool results only."""

    def __init__(self):
        self.stored = []

    async def offload_context(self, session_id, msgs, **kwargs):
        self.stored.append(msgs)
        return "two://context"

    async def offload_tool_result(self, session_id, tool_result, **kwargs):
        self.stored.append(tool_result)
        return "two://result"


def an_agent(*script, most=2, offloader="memory", **settings):
    model = ScriptedModel([*script, "done"], context_size=65536)
    offloader = memory_offloader() if offloader == "memory" else offloader
    return make_agent(model, config=ContextConfig(max_image_num=most), tools=[show], offloader=offloader, **settings)


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_of_a_users_images_the_newest_stay(most):
    agent = an_agent(most=most)
    content = [TextBlock(text="Look at these."), *(image(i) for i in range(4))]

    await agent.reply(UserMsg(name="user", content=content))

    kept = pictures(*range(4 - most, 4))
    assert images_in(agent.state.context) == kept
    assert images_in(agent.model.chats[0].messages) == kept
    assert "Look at these." in text_of(agent.state.context)
    assert text_of(agent.state.context).count("is offloaded into") == 4 - most


async def test_of_the_images_in_tool_results_the_newest_stay():
    agent = an_agent(*(call("show", number=i) for i in range(5)))

    await agent.reply(user("Show five pictures."))

    assert images_in(agent.state.context) == pictures(3, 4)
    assert all(len(images_in(request.messages)) <= 2 for request in agent.model.chats)
    assert orphans(agent.state.context) == []
    assert "This is picture 0." in text_of(agent.state.context)


async def test_of_the_images_in_hints_the_newest_stay():
    class Camera(MiddlewareBase):
        async def on_reasoning(self, agent, input_kwargs, next_handler):
            number = len(agent.model.chats)
            agent.state.append_context(agent.name, [HintBlock(hint=[TextBlock(text="seen"), image(number)])])
            async for item in next_handler():
                yield item

    agent = an_agent(*(call("show", number=i) for i in range(10, 13)), middlewares=[Camera(), CompressionMiddleware()])

    await agent.reply(user("Show three pictures."))

    assert len(images_in(agent.state.context)) <= 3
    assert all(len(images_in(request.messages)) <= 2 for request in agent.model.chats)
    assert images_in(agent.model.chats[-1].messages) == pictures(12, 3)


async def test_images_of_every_kind_count_together():
    agent = an_agent()
    shown = call("show", number=1)
    shown.state = "finished"
    result = ToolResultBlock(id=shown.id, name="show", output=[image(1)])
    agent.state.context.extend(
        [
            UserMsg(name="user", content=[TextBlock(text="First"), image(0)]),
            AssistantMsg(name="scribe", content=[shown, result, HintBlock(hint=[image(2)]), TextBlock(text="I see.")]),
        ]
    )

    await agent.reply(UserMsg(name="user", content=[TextBlock(text="And this?"), image(3)]))

    assert images_in(agent.state.context) == pictures(2, 3)


@pytest.mark.may_block("the host's workspace blocks")
async def test_an_image_is_stored_once_by_content(tmp_path):
    agent = an_agent(most=1, offloader=LocalWorkspace(workdir=str(tmp_path)))
    for _ in range(3):
        await agent.reply(UserMsg(name="user", content=[TextBlock(text="Again:"), image(7)]))
    await agent.reply(UserMsg(name="user", content=[TextBlock(text="Another:"), image(8)]))

    [stored] = (tmp_path / "data").glob("*.png")
    assert stored.read_bytes() == png(7)
    assert images_in(agent.state.context) == pictures(8)
    assert text_of(agent.state.context).count(stored.name) == 3


@pytest.mark.parametrize("offloader", [None, "two methods"])
async def test_no_offloader_for_images_is_no_error(offloader):
    agent = an_agent(*(call("show", number=i) for i in range(3)), offloader=TwoMethods() if offloader else None)
    content = [TextBlock(text="Look."), *(image(i) for i in range(10, 13))]

    await agent.reply(UserMsg(name="user", content=content))

    assert images_in(agent.state.context) == pictures(1, 2)
    assert "The image named 'picture-10.png' is" in text_of(agent.state.context)
    assert "done" in text_of(agent.state.context[-1:])


async def test_an_image_that_could_not_be_stored_stays():
    class Broken(TwoMethods):
        async def offload_data_block(self, block):
            raise OSError("the bucket is gone")

    config = ContextConfig(max_image_num=1, offload=OffloadConfig(local_copy=False))
    agent = make_agent(ScriptedModel(["done"], context_size=65536), config=config, tools=[], offloader=Broken())

    events = await events_of(agent.reply_stream(UserMsg(name="user", content=[image(i) for i in range(3)])))

    assert images_in(agent.state.context) == pictures(0, 1, 2)
    assert "done" in text_of(agent.state.context[-1:])
    assert "store.failed" in told(events)
    assert "could not be stored" in receipts(agent)[-1].problems[0]


async def test_an_offloader_that_only_writes_still_leaves_images_to_be_recalled():
    agent = an_agent(offloader=TwoMethods())

    await agent.reply(UserMsg(name="user", content=[TextBlock(text="Look."), *(image(i) for i in range(3))]))

    assert "The image named 'picture-0.png' is offloaded into" in text_of(agent.state.context)


async def test_an_image_is_counted_by_its_size_not_by_its_bytes():
    sizes = {}
    for side in (64, 512, 1024):
        agent = an_agent(most=5)
        await agent.compress_context()
        empty = receipts(agent)[-1].tokens_before
        agent.state.context.append(UserMsg(name="user", content=[image(1, side=side)]))
        await agent.compress_context()
        sizes[side] = receipts(agent)[-1].tokens_before - empty

    assert sizes[64] < 400
    assert sizes[64] <= sizes[512] <= sizes[1024] < 3000


async def test_images_that_leave_with_their_message_are_in_the_store():
    agent = an_agent(most=5)
    for number in range(3):
        asked = UserMsg(name="user", content=[TextBlock(text=f"Picture {number} " * 60), image(number)])
        agent.state.context.extend([asked, AssistantMsg(name="scribe", content="Seen. " * 100)])
    agent.state.context.append(user("And now?"))

    await agent.compress_context(context_config=ContextConfig(trigger_ratio=0.011, reserve_ratio=0.0001))

    [receipt] = applied(agent)
    stored = (await agent.offloader.store.get(receipt.reference)).decode()
    assert images_in(agent.state.context) == []
    for number in range(3):
        [reference] = {part for part in stored.split('"') if part.endswith(".png") and digest(number) in part}
        assert await agent.offloader.store.get(reference) == png(number)
