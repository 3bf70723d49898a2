"""Faults as a model makes them in summaries, put in by code: a dropped id, a flipped number, an invented path, a stale status."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ctxkit.summary.verify import claims_in

if TYPE_CHECKING:
    from ctxkit.ledger import Ledger
    from ctxkit.summary.verify import Claim, Fact, Verified

Kind = Literal["dropped id", "flipped number", "invented path", "stale status"]
KINDS: tuple[Kind, ...] = ("dropped id", "flipped number", "invented path", "stale status")

_STEMS = "session handler parser client storage router schema worker loader billing invoice adapter token_store".split()
_FOLDERS = "src/core lib/internal packages/agent/src app/services pkg/util internal/api tests/integration".split()
_ENDS = (".py", ".ts", ".go", ".rs", ".md", ".json", ".yaml", ".sql")
_PASSED = (
    "`{command}` passes now.",
    "`{command}` completed successfully.",
    "I ran `{command}` and it succeeded without errors.",
    "All of it works: `{command}` is green.",
    "Ran `{command}`: no errors.",
    "The problem with `{command}` is fixed.",
)
_MADE = (
    "Created `{path}`.",
    "Added {path} with the new code.",
    "The file `{path}` exists.",
    "Wrote {path} for this.",
)
_GONE = (
    "Deleted `{path}`.",
    "Removed the file {path}, which is obsolete.",
    "`{path}` was deleted.",
    "{path} has been removed.",
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One summary with one fault in it."""

    kind: Kind
    text: str
    """The summary."""
    wrong: str
    """What is wrong or missing, letter by letter."""

    def is_found(self, verified: Verified) -> bool:
        """Whether a check found this very fault: marked, corrected, or put in again."""
        said = "\n".join(map(str, verified.fields.values()))
        if not verified.is_usable:
            return self.kind == "invented path"
        if self.kind == "dropped id":
            return any(self.wrong in line for line in verified.added)
        if self.kind == "stale status":
            return f"{self.wrong} [the record shows: " in said
        return self.wrong in verified.unverified or f"{self.wrong} [the record shows: " in said


def inject(kind: Kind, text: str, rnd: random.Random, *, ledger: Ledger, facts: Sequence[Fact]) -> Fault | None:
    """Return a summary with one fault of a kind; None where it has no place for it.

    Args:
        kind: What kind of fault.
        text: The summary.
        rnd: Decides the place and the fault.
        ledger: The record of what was summarised.
        facts: What the summary must keep.
    """
    makers: dict[Kind, Callable[[], Fault | None]] = {
        "dropped id": lambda: _dropped(text, rnd, facts),
        "flipped number": lambda: _flipped(text, rnd),
        "invented path": lambda: _invented(text, rnd),
        "stale status": lambda: _stale(text, rnd, ledger),
    }
    return makers[kind]()


def _dropped(text: str, rnd: random.Random, facts: Sequence[Fact]) -> Fault | None:
    """Leave out every line that has a fact which must be kept."""
    present = [fact for fact in facts if fact.names and fact.is_in(text.lower())]
    if not present:
        return None
    fact = rnd.choice(present)
    kept = [line for line in text.splitlines() if not any(name in line.lower() for name in fact.names)]
    return Fault(kind="dropped id", text="\n".join(kept), wrong=fact.text)


def _flipped(text: str, rnd: random.Random) -> Fault | None:
    """Change one digit of a number or a version, so that it is another one of as many digits."""
    numbers = [claim for claim in claims_in(text) if claim.kind in {"number", "version"}]
    if not numbers:
        return None
    claim = rnd.choice(numbers)
    places = [match.start() for match in re.finditer(r"\d", claim.text)]
    at = rnd.choice(places)
    digit = rnd.choice([d for d in "123456789" if d != claim.text[at]])
    wrong = f"{claim.text[:at]}{digit}{claim.text[at + 1 :]}"
    return Fault(kind="flipped number", text=_replaced(text, claim, wrong), wrong=wrong)


def _invented(text: str, rnd: random.Random) -> Fault | None:
    """Put another name or another folder into a path of the summary, or a whole new path behind it."""
    paths = [claim for claim in claims_in(text) if claim.kind == "path" and "/" in claim.text]
    stem = f"{rnd.choice(_STEMS)}_{rnd.choice(_STEMS)}"
    if not paths or rnd.random() < 0.4:
        wrong = f"{rnd.choice(_FOLDERS)}/{stem}{rnd.choice(_ENDS)}"
        return Fault(kind="invented path", text=f"{text}\nSee also `{wrong}`.", wrong=wrong)
    claim = rnd.choice(paths)
    folder, _, name = claim.text.rpartition("/")
    end = name[name.rfind(".") :] if "." in name else ""
    wrong = f"{folder}/{stem}{end}" if rnd.random() < 0.5 else f"{folder}_{rnd.choice(_STEMS)}/{name}"
    return Fault(kind="invented path", text=_replaced(text, claim, wrong), wrong=wrong)


def _stale(text: str, rnd: random.Random, ledger: Ledger) -> Fault | None:
    """Say that what failed last works, or that a file that is gone is there, or the other way round."""
    wrong = [rnd.choice(_PASSED).format(command=command) for command in _open_commands(ledger)]
    names = text.lower()
    for path, state in ledger.files.items():
        if path.rpartition("/")[2].lower() not in names and state in {"created", "modified", "deleted"}:
            wrong.append(rnd.choice(_MADE if state == "deleted" else _GONE).format(path=path))
    if not wrong:
        return None
    said = rnd.choice(wrong)
    return Fault(kind="stale status", text=f"{text}\n{said}\nThen the work went on.", wrong=said)


def _open_commands(ledger: Ledger) -> list[str]:
    """Return the command lines whose error is open, as the record has them."""
    lines = [" ".join(command.text.split()) for command in ledger.commands]
    failed = [failure.what.partition(" ")[2].removesuffix("…") for failure in ledger.open_failures]
    return [
        next(line for line in lines if line.startswith(what))
        for what in failed
        if any(line.startswith(what) for line in lines)
    ]


def _replaced(text: str, claim: Claim, wrong: str) -> str:
    return text[: claim.stop - len(claim.text)] + wrong + text[claim.stop :]
