"""Texts of the kinds that agents read, real where the machine has them, else made from a seed."""

from __future__ import annotations

import base64
import json
import random
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

HAN = (
    "上下文窗口是智能体的工作记忆。随着对话变长，用户输入、助手回复、工具调用以及工具结果不断累积，最终会超出模型的上限。",  # noqa: RUF001 - Chinese punctuation
    "因此需要对较早的消息进行摘要，截断过大的工具输出，并把必要的内容保存到外部存储。",  # noqa: RUF001 - Chinese punctuation
    "在昨天下午的会议上，王经理提出要重新评估供应商的报价，李工程师则认为应当先完成数据库的迁移。",  # noqa: RUF001 - Chinese punctuation
    "测试环境中发现的三个缺陷尚未修复，预计下周一之前可以上线。",  # noqa: RUF001 - Chinese punctuation
    "东京的办公室已经确认收到了样品，品质管理的流程还要再检查一遍，然后才能通知客户。",  # noqa: RUF001 - Chinese punctuation
)

Maker = Callable[[random.Random, int], str]


def sample(kind: str, rnd: random.Random, chars: int) -> str:
    """Return a text of a kind.

    Args:
        kind: A key of `MAKERS`.
        rnd: Decides what is in it.
        chars: Its length in characters, at most.
    """
    return MAKERS[kind](rnd, chars)[:chars]


@cache
def _library_code() -> str:
    """Return about a megabyte of the standard library's source."""
    folder = Path(sysconfig.get_path("stdlib"))
    return "".join(path.read_text("utf-8", "replace") for path in sorted(folder.glob("[a-d]*.py")))[:1_000_000]


@cache
def _library_prose() -> str:
    """Return the text of the language reference, which Python brings along for `help()`."""
    from pydoc_data import topics  # noqa: PLC0415 - half a megabyte, of use here only

    return "\n".join(topics.topics.values())


def _slice_of(text: str, rnd: random.Random, chars: int) -> str:
    start = rnd.randrange(max(1, len(text) - chars))
    return text[start : start + chars]


def _rows(rnd: random.Random, chars: int) -> list[dict[str, object]]:
    return [
        {
            "id": rnd.randrange(10**6),
            "name": f"user_{rnd.randrange(10**4)}",
            "email": f"u{rnd.randrange(10**4)}@example.com",
            "active": rnd.random() < 0.5,
            "score": round(rnd.random() * 100, 4),
            "tags": rnd.sample(["alpha", "beta", "gamma", "delta"], 2),
            "created_at": f"2026-0{rnd.randint(1, 9)}-1{rnd.randint(0, 9)}T0{rnd.randint(0, 9)}:2{rnd.randint(0, 9)}:00Z",
        }
        for _ in range(chars // 120 + 1)
    ]


def _lines(make: Callable[[], str], chars: int) -> str:
    lines: list[str] = []
    size = 0
    while size < chars:
        lines.append(make())
        size += len(lines[-1]) + 1
    return "\n".join(lines)


def _access_log(rnd: random.Random, chars: int) -> str:
    return _lines(
        lambda: (
            f"10.{rnd.randrange(256)}.{rnd.randrange(256)}.{rnd.randrange(256)} - - [21/Nov/2026:20:"
            f'{rnd.randint(10, 59)}:{rnd.randint(10, 59)} +0000] "GET /api/v2/items/{rnd.randrange(10**5)} HTTP/1.1" '
            f"{rnd.choice([200, 404, 500])} {rnd.randrange(10**5)}"
        ),
        chars,
    )


def _service_log(rnd: random.Random, chars: int) -> str:
    return _lines(
        lambda: (
            f"2026-11-{rnd.randint(10, 28)}T{rnd.randint(10, 23)}:{rnd.randint(10, 59)}:{rnd.randint(10, 59)}.{rnd.randrange(1000):03d}Z "
            f"{rnd.choice(['INFO', 'DEBUG', 'WARN', 'ERROR'])} worker-{rnd.randrange(64)} job {rnd.getrandbits(32):08x} "
            f"{rnd.choice(['started', 'finished', 'retried after a timeout', 'was refused by the upstream'])}"
        ),
        chars,
    )


def _listing(rnd: random.Random, chars: int) -> str:
    return _lines(
        lambda: (
            f"-rw-r--r-- 1 root root {rnd.randrange(10**7):8d} Nov 21 20:1{rnd.randrange(10)} module_{rnd.randrange(500)}_test.py"
        ),
        chars,
    )


def _uuid(rnd: random.Random) -> str:
    digits = f"{rnd.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


MAKERS: dict[str, Maker] = {
    "prose": lambda rnd, chars: _slice_of(_library_prose(), rnd, chars),
    "code": lambda rnd, chars: _slice_of(_library_code(), rnd, chars),
    "json": lambda rnd, chars: json.dumps(_rows(rnd, chars), indent=rnd.choice([2, None])),
    "chinese": lambda rnd, chars: "".join(rnd.choice(HAN) for _ in range(chars // 30 + 1)),
    "access log": _access_log,
    "service log": _service_log,
    "listing": _listing,
    "base64": lambda rnd, chars: base64.b64encode(rnd.randbytes(chars)).decode(),
    "uuids": lambda rnd, chars: _lines(lambda: _uuid(rnd), chars),
    "csv": lambda rnd, chars: _lines(lambda: ",".join(f"{rnd.uniform(-1e3, 1e3):.6f}" for _ in range(8)), chars),
}
