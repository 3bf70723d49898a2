"""States of agents as AgentScope writes them, and a clock that is set by hand."""

from typing import Any


class Clock:
    """Seconds since the epoch, moved by the test."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def text(words: str, *, block_id: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, "id": block_id, **more}


def call(call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": "Read", "input": "{}", "state": "finished", **more}


def result(output: str, call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "id": call_id, "name": "Read", "output": output, "state": "success", **more}


def message(message_id: str, role: str, *blocks: dict[str, Any] | str) -> dict[str, Any]:
    content = [
        text(one, block_id=f"{message_id}-{at}") if isinstance(one, str) else one for at, one in enumerate(blocks)
    ]
    return {"name": role, "content": content, "role": role, "id": message_id, "metadata": {}, "usage": None}


def state(*messages: dict[str, Any], session_id: str = "s", summary: str = "", **more: Any) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "summary": summary,
        "context": list(messages),
        "reply_context": {"reply_id": "r1", "cur_iter": 0},
        "permission_context": {"mode": "default"},
        "tool_context": {"read_file_cache": [], "activated_groups": []},
        "tasks_context": {"tasks": []},
        "middle_context": {},
        **more,
    }


def talk(turns: int, *, first: int = 0) -> list[dict[str, Any]]:
    """Return so many turns of a question and an answer."""
    found = []
    for number in range(first, first + turns):
        found += [
            message(f"u{number}", "user", f"question {number}"),
            message(f"a{number}", "assistant", f"answer {number}"),
        ]
    return found
