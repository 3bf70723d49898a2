"""Texts of every content class, made from fixed seeds, and small stand-ins for the host's blocks."""

from __future__ import annotations

import base64
import json
import random
import struct
from types import SimpleNamespace
from typing import Any

from ctxkit.tokens import ContentClass

_SENTENCE = (
    "the agent reads a file and reports what it found before the next step begins so that nobody has to wait for long "
    "while the context window fills with results of tools that were called earlier in the conversation about storage"
)
WORDS = _SENTENCE.split()
HAN = "上下文窗口是智能体的工作记忆随着对话变长用户输入助手回复工具调用以及工具结果不断累积最终会超出模型的上限因此需要摘要"


def prose(seed: int, chars: int) -> str:
    rnd = random.Random(seed)
    text = ""
    while len(text) < chars:
        text += " ".join(rnd.choices(WORDS, k=rnd.randint(6, 16))).capitalize() + ". "
    return text[:chars]


def code(seed: int, chars: int) -> str:
    rnd = random.Random(seed)
    text = ""
    while len(text) < chars:
        a, b = rnd.sample(WORDS, 2)
        text += f"def {a}_{b}(self, {b}: int = {rnd.randint(0, 99)}) -> dict[str, int]:\n"
        text += f"    if {b} > len(self.{a}):\n        return {{'{a}': {b}}}\n    return self.{a}({b})[0]\n\n\n"
    return text[:chars]


def json_rows(seed: int, chars: int) -> str:
    rnd = random.Random(seed)
    rows: list[dict[str, Any]] = []
    while len(rows) * 110 < chars:
        rows.append(
            {
                "id": rnd.randint(1, 99999),
                "name": rnd.choice(WORDS),
                "active": rnd.random() < 0.5,
                "score": round(rnd.random(), 4),
                "tags": rnd.sample(WORDS, 2),
            }
        )
    return json.dumps(rows, indent=2)[:chars]


def cjk(seed: int, chars: int) -> str:
    rnd = random.Random(seed)
    return "".join(rnd.choice(HAN) if i % 17 else "，" for i in range(chars))


def base64_blob(seed: int, chars: int) -> str:
    return base64.b64encode(random.Random(seed).randbytes(chars))[:chars].decode()


def uuids(seed: int, chars: int) -> str:
    rnd = random.Random(seed)
    lines: list[str] = []
    while len(lines) * 37 < chars:
        text = f"{rnd.getrandbits(128):032x}"
        lines.append("-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))
    return "\n".join(lines)[:chars]


def csv(seed: int, chars: int) -> str:
    rnd = random.Random(seed)
    text = ""
    while len(text) < chars:
        text += ",".join(f"{rnd.uniform(-1000, 1000):.6f}" for _ in range(8)) + "\n"
    return text[:chars]


def log(seed: int, chars: int) -> str:
    rnd = random.Random(seed)
    text = ""
    while len(text) < chars:
        text += f"2026-03-{rnd.randint(10, 28)}T0{rnd.randint(0, 9)}:{rnd.randint(10, 59)}:{rnd.randint(10, 59)}Z "
        text += f"{rnd.choice(['INFO', 'WARN', 'ERROR'])} worker-{rnd.randint(1, 64)} {rnd.choice(WORDS)} "
        text += f"took={rnd.randint(1, 9999)}ms 10.0.{rnd.randint(0, 255)}.{rnd.randint(0, 255)}\n"
    return text[:chars]


KINDS = {
    "prose": (prose, ContentClass.PROSE),
    "code": (code, ContentClass.CODE),
    "json": (json_rows, ContentClass.JSON),
    "cjk": (cjk, ContentClass.CJK),
    "base64": (base64_blob, ContentClass.DENSE),
    "uuids": (uuids, ContentClass.DENSE),
    "csv": (csv, ContentClass.DENSE),
    "log": (log, ContentClass.LOG),
}


class WordCounter:
    """Counts words, and how often it was asked."""

    name = "words"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def count(self, text: str) -> int:
        self.calls.append(text)
        return len(text.split())


class Unequal(SimpleNamespace):  # noqa: PLW1641 - unhashable, as the host's pydantic objects are
    """A block or message that must never be compared by its content."""

    def __eq__(self, other: object) -> bool:
        msg = "blocks and messages are compared by identity only"
        raise AssertionError(msg)


def Block(**fields: Any) -> Any:  # noqa: N802 - stands in for the host's classes
    return Unequal(**fields)


def text_block(text: str) -> Any:
    return Block(type="text", text=text)


def result_block(output: Any, *, state: str = "success", id: str = "call_1") -> Any:  # noqa: A002 - the host's word
    return Block(type="tool_result", id=id, name="Read", output=output, state=state, metadata={})


def call_block(arguments: str, *, id: str = "call_1") -> Any:  # noqa: A002 - the host's word
    return Block(type="tool_call", id=id, name="Read", input=arguments, state="finished")


def data_block(data: str, media_type: str) -> Any:
    return Block(type="data", name=None, source=SimpleNamespace(type="base64", data=data, media_type=media_type))


def message(*content: Any, role: str = "assistant", name: str = "friday") -> Any:
    return Block(role=role, name=name, content=list(content))


def png(width: int, height: int, *, extra_bytes: int = 0) -> str:
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return base64.b64encode(header + bytes(extra_bytes)).decode()
