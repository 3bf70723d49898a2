"""Stores one huge tool result in a process of its own, and writes what that cost as a line of JSON.

    python -m benchmarks._big_result SIDE BYTES FOLDER [--redact] [--all]

A process of its own, for the most memory that a process ever had is known of it as a whole.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from agentscope.message import TextBlock, ToolResultBlock, ToolResultState

from benchmarks._agents import quiet
from benchmarks._process import memory_mib
from benchmarks._stores import open_side

_LINE = "line of a log file with some text 0123456789\n"


async def main() -> None:
    """Store the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=("stock", "ctxkit"))
    parser.add_argument("bytes", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--redact", action="store_true", help="with the built-in redactor")
    parser.add_argument("--all", action="store_true", help="without the limit of what is stored of a result")
    options = parser.parse_args()
    quiet()
    text = _LINE * (options.bytes // len(_LINE))
    result = ToolResultBlock(id="call_1", name="tool", output=[TextBlock(text=text)], state=ToolResultState.SUCCESS)
    limit = {"result_bytes": None} if options.all and options.side == "ctxkit" else {}
    async with open_side(options.side, options.folder, redact=options.redact, **limit) as offloader:
        before, started = memory_mib(), time.perf_counter()
        path = await offloader.offload_tool_result("s", result)
        took = time.perf_counter() - started
    growth = memory_mib("VmHWM") - before
    stored = Path(path).stat().st_size  # noqa: ASYNC240 - the measuring is over
    sys.stdout.write(json.dumps({"seconds": took, "growth_mib": growth, "stored": stored}) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
