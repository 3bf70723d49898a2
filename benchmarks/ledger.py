"""B10: the ledger beside the truth of recorded runs, after twenty compactions of each.

    python -m benchmarks.ledger [--recordings FILE] [--short] [--json FILE]

Files: of the calls that name a path in an argument, what became of each file; and of twenty shell-heavy runs, what was
created, changed and deleted, as labelled by hand. Errors: which of them nothing has resolved, in the same twenty runs.
Constraints: sentences in which users demand or forbid something, verbatim. A run is cut into twenty spans; each is taken
into the state of the summary layer, which goes through its bounded JSON between any two, as it does between two turns.

The recordings are not part of the project: their path comes from `--recordings` or the environment's RECORDINGS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentscope.message import AssistantMsg, Msg, TextBlock, ToolCallBlock, ToolResultBlock, ToolResultState, UserMsg
from rich.console import Console

from benchmarks._report import Target, conclude, options_parser, skip
from ctxkit.summary import SummaryState

PASSES = 20
WANTED_F1 = 0.97
LABELS = Path(__file__).with_name("ledger_labels.json")
_ROOT = re.compile(r"(?:/testbed/|\./)")
_DEMAND = re.compile(r"\b(?:must|never|always|do not|don't|cannot|only)\b", re.IGNORECASE)
_SENTENCE_CHARS = 300

# The truth is told from the tools of the recordings one by one, and by no code of ctxkit's.
_TOOLS_BY_ARGUMENT = frozenset({"read", "edit", "write", "str_replace_editor"})
_EDITOR = {
    "view": "read",
    "create": "created",
    "str_replace": "modified",
    "insert": "modified",
    "undo_edit": "modified",
}
_PLAIN = {"read": "read", "edit": "modified", "write": "created"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run."""

    source: str
    id: str
    kind: str
    """`arguments`, `labels` or `constraints`."""
    right: int
    wrong: int
    missed: int
    errors_right: int = 0
    errors_wrong: int = 0
    errors_missed: int = 0
    is_same: bool = True
    """Whether a second fold of the same run gave the same bytes."""


def messages_of(run: dict[str, Any]) -> list[Msg]:
    """Return a recorded run as the host's messages; calls are numbered in their order."""
    messages: list[Msg] = []
    numbers: dict[str, str] = {}
    names: dict[str, str] = {}
    for message in run["messages"]:
        text = message.get("content") or ""
        if message["role"] == "user":
            messages.append(UserMsg(name="user", content=text or " "))
        elif message["role"] == "assistant":
            blocks: list[Any] = [TextBlock(text=text)] if text else []
            for call in message.get("tool_calls") or []:
                function = call["function"]
                numbers[call["id"]], names[call["id"]] = f"call_{len(numbers)}", function["name"]
                number = numbers[call["id"]]
                blocks.append(ToolCallBlock(id=number, name=function["name"], input=function["arguments"]))
            messages.append(AssistantMsg(name="agent", content=blocks or [TextBlock(text=" ")]))
        elif message["role"] == "tool" and message["tool_call_id"] in numbers:
            number, name = numbers[message["tool_call_id"]], names[message["tool_call_id"]]
            # The host keeps calls and results in one message, and no compression takes them apart.
            messages[-1].content.append(
                ToolResultBlock(id=number, name=name, output=text, state=ToolResultState.SUCCESS)
            )
    return messages


async def compacted(messages: Sequence[Msg]) -> SummaryState:
    """Return the state after twenty compactions, each followed by a turn's save and load."""
    state = SummaryState()
    for number in range(PASSES):
        span = messages[number * len(messages) // PASSES : (number + 1) * len(messages) // PASSES]
        state = await state.absorb(span, tokens=len(span), reference=f"context#{number}")
        state = SummaryState.from_json(json.loads(json.dumps(state.to_json())))
    return state


def calls_of(run: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each call of a run: the tool, its arguments, and the text of its result."""
    results = {m["tool_call_id"]: m.get("content") or "" for m in run["messages"] if m["role"] == "tool"}
    for message in run["messages"]:
        for call in message.get("tool_calls") or []:
            try:
                arguments = json.loads(call["function"]["arguments"])
            except ValueError:
                arguments = {}
            if isinstance(arguments, dict) and call["id"] in results:
                yield call["function"]["name"], arguments, results[call["id"]]


def files_by_argument(run: dict[str, Any]) -> dict[str, str]:
    """Return what became of the files that calls name in an argument, and that no shell command names."""
    files: dict[str, str] = {}
    commands: list[str] = []
    for name, arguments, result in calls_of(run):
        path = arguments.get("path") or arguments.get("file_path")
        if name not in _TOOLS_BY_ARGUMENT or not isinstance(path, str):
            commands.append(str(arguments.get("command", "")))
            continue
        done = _EDITOR.get(str(arguments.get("command"))) if name == "str_replace_editor" else _PLAIN[name]
        if done is None or re.match(r"\s*error\b", result, re.IGNORECASE):
            continue
        before = files.get(path)
        if done == "created" and before is not None and before != "created":
            done = "modified"
        elif done == "modified" and before == "created":
            done = "created"
        elif done == "read" and before is not None:
            done = before
        files[path] = done
    said = "\n".join(commands)
    return {path: done for path, done in files.items() if path.rpartition("/")[2] not in said}


def demands_of(run: dict[str, Any]) -> list[str]:
    """Return the sentences of users that demand or forbid something."""
    said = [m.get("content") or "" for m in run["messages"] if m["role"] == "user"]
    sentences = (part.strip() for text in said for part in re.split(r"(?<=[.!?])\s+|\n+", text))
    return [part for part in dict.fromkeys(sentences) if _DEMAND.search(part) and len(part) <= _SENTENCE_CHARS]


async def _is_same(messages: Sequence[Msg], state: SummaryState) -> bool:
    return json.dumps((await compacted(messages)).to_json()) == json.dumps(state.to_json())


async def rows_of(run: dict[str, Any], labels: dict[str, Any] | None) -> list[Row]:
    """Return what the ledger of a run has right, has wrong and has not."""
    messages = messages_of(run)
    state = await compacted(messages)
    is_same = await _is_same(messages, state)
    about: dict[str, Any] = {"source": run["source"], "id": run["id"], "is_same": is_same}
    rows = []
    truth = files_by_argument(run)
    if truth:
        mine = {(path, done) for path, done in state.ledger.files.items() if path in truth}
        rows.append(Row(**about, kind="arguments", **_compared(mine, set(truth.items()))))
    if labels is not None:
        files = {(path, done) for done in ("created", "modified", "deleted") for path in labels[done]}
        mine = {(_ROOT.sub("", path), done) for path, done in state.ledger.files.items() if done != "read"}
        failed = {int(failure.call_id.rpartition("_")[2]) for failure in state.ledger.open_failures}
        errors: dict[str, Any] = {
            f"errors_{name}": n for name, n in _compared(failed, set(labels["open_errors"])).items()
        }
        rows.append(Row(**about, kind="labels", **_compared(mine, files), **errors))
    demands = demands_of(run)
    if demands:
        kept = " ".join("\n".join([*state.ledger.constraints, *(user.text for user in state.users)]).split())
        right = sum(" ".join(demand.split()) in kept for demand in demands)
        rows.append(Row(**about, kind="constraints", right=right, wrong=0, missed=len(demands) - right))
    return rows


def _compared(mine: set[Any], truth: set[Any]) -> dict[str, Any]:
    return {"right": len(mine & truth), "wrong": len(mine - truth), "missed": len(truth - mine)}


def f1(right: int, wrong: int, missed: int) -> float:
    """Return the harmonic mean of precision and recall; 1 where there is nothing to find and nothing was found."""
    return 2 * right / (2 * right + wrong + missed) if right + wrong + missed else 1.0


def _target(name: str, counts: Sequence[tuple[int, int, int]]) -> Target:
    right, wrong, missed = (sum(count[at] for count in counts) for at in range(3))
    score = f1(right, wrong, missed)
    measured = f"{score:.3f} (right {right}, wrong {wrong}, missed {missed}; n = {len(counts)} runs)"
    return Target(name=name, wanted=f"F1 >= {WANTED_F1}", measured=measured, met=score >= WANTED_F1)


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return what was promised, and what came of it."""
    by_kind = {k: [row for row in rows if row.kind == k] for k in ("arguments", "labels", "constraints")}
    counts = {kind: [(row.right, row.wrong, row.missed) for row in mine] for kind, mine in by_kind.items()}
    errors = [(row.errors_right, row.errors_wrong, row.errors_missed) for row in by_kind["labels"]]
    right, missed = (sum(getattr(row, name) for row in by_kind["constraints"]) for name in ("right", "missed"))
    share = right / max(1, right + missed)
    runs = len(by_kind["constraints"])
    same = sum(row.is_same for row in rows)
    return [
        _target("files named in arguments", counts["arguments"]),
        _target("files changed, shell-heavy runs", counts["labels"]),
        _target("open errors, shell-heavy runs", errors),
        Target(
            name="user constraints",
            wanted="100%",
            measured=f"{share:.1%} of {right + missed} (n = {runs} runs)",
            met=not missed,
        ),
        Target(name="same bytes twice", wanted="all", measured=f"{same} of {len(rows)}", met=same == len(rows)),
    ]


def sample_of(path: Path, *, is_short: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Yield the runs that have anything to check, with their labels; in the short form the labelled ones alone."""
    labels = {(one["source"], one["id"]): one for one in json.loads(LABELS.read_text("utf-8"))["runs"]}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            mine = labels.get((run["source"], run["id"]))
            if mine is not None or not is_short:
                yield run, mine


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 where the targets are met or there are no recordings, else 1."""
    parser = options_parser("B10: the ledger beside the truth of recorded runs.")
    parser.add_argument("--recordings", type=Path, default=os.environ.get("RECORDINGS"), help="the recordings")
    options: argparse.Namespace = parser.parse_args(arguments)
    console = Console()
    if options.recordings is None or not Path(options.recordings).is_file():  # noqa: ASYNC240 - nothing runs yet
        console.print(f"SKIPPED: no recordings at {options.recordings}; give --recordings FILE or set RECORDINGS")
        return skip("B10", options=options, reason="no recordings")
    rows: list[Row] = []
    for run, labels in sample_of(Path(options.recordings), is_short=options.short):
        rows += await rows_of(run, labels)
    return conclude("B10", targets(rows), [asdict(row) for row in rows], options=options, console=console)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
