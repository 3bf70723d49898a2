"""What is done to a context, as pure data that can be written to JSON: plan, edit, draft, receipt.

A strategy makes a `Plan`; the engine stores the originals, applies it in one step and keeps a `Receipt`. Nothing here
holds a live message: an edit names its place by message index and block range in the view that it was made from.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Literal
from uuid import uuid4

from ctxkit.port import Usage


class Reason(StrEnum):
    """Why a plan was made."""

    TRIGGER = "trigger"
    """The context reached the trigger before a reasoning step."""
    MANUAL = "manual"
    """Somebody called `compress_context()`."""
    TOOL = "tool"
    """The agent called the host's CompressContext tool."""
    RULE = "rule"
    """A rule of the user's fired."""
    OVERFLOW = "overflow"
    """The provider refused the request, or it could be foreseen."""
    MEMORY = "memory"
    """Memory had written a summary of what left before."""
    ADMISSION = "admission"
    """Something oversized had entered the context."""


REFERENCE: Final = "{reference}"
"""In the text of a `CLEAR` edit: the place of the stored original, filled in when it is known."""


class EditKind(StrEnum):
    """What an edit does to the blocks that it names."""

    COMPRESS = "compress"
    """Moved into the summary."""
    DROP = "drop"
    """Removed without a summary of its own."""
    TRUNCATE = "truncate"
    """Shortened to head and tail, with a marker."""
    CLEAR = "clear"
    """Replaced by the one line in `text` that says what stood there; the block stays, so a call keeps its result."""
    SHRINK = "shrink"
    """Replaced by `text`, which says the same in fewer tokens."""
    IMAGE = "image"
    """An image replaced by a note that says where it is."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One change of one run of blocks of one message."""

    kind: EditKind
    message: int
    """0-based index of the message in the view."""
    message_id: str
    start: int
    """0-based index of the first block."""
    stop: int
    """Index behind the last block."""
    tokens: int
    """Tokens that stood there."""
    keep_tokens: int = 0
    """Tokens that may stand there afterwards; 0 where nothing does."""
    keep_chars: int | None = None
    """Of `TRUNCATE` edits: so many characters stand there afterwards, in place of `keep_tokens`, which is what they take about;
    `None` goes by tokens."""
    images: int = 0
    """How many of the block's images go, oldest first; of `IMAGE` edits only."""
    reference: str | None = None
    """Where the original is stored; `None` where it is not."""
    rule: str = ""
    """Name of the strategy that wants it."""
    text: str | None = None
    """Of `CLEAR` and `SHRINK` edits: what stands there afterwards; of `CLEAR`, with `REFERENCE` where the original is named."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON without what is the default, for a plan may have hundreds of edits."""
        values = ((one.name, getattr(self, one.name), one.default) for one in fields(self))
        return {name: value for name, value, default in values if value != default}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Edit":
        """Return the edit that `to_json` wrote."""
        return cls(**{**data, "kind": EditKind(data["kind"])})


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What the check of a summary against its sources found."""

    claims: int = 0
    """Paths, ids, numbers and versions that were looked for in the sources."""
    added: tuple[str, ...] = ()
    """Facts that were missing and were put in by code."""
    unverified: tuple[str, ...] = ()
    """What stands in no source, and is marked."""
    corrected: tuple[str, ...] = ()
    """What the record shows where the summary says otherwise."""
    reported: tuple[str, ...] = ()
    """Instructions that a tool's result said first, and are marked."""
    refused: int = 0
    """Summaries that were refused before this one."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Checked":
        """Return what `to_json` wrote."""
        values: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in data.items()}
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A summary that has been made but not applied."""

    fields: Mapping[str, Any]
    """The summary's fields, as its schema has them."""
    origin: Literal["warm", "structured", "staged", "extractive"]
    """How it was made: by extending the last request, by the host's structured output, in stages, or without a model."""
    usage: Usage | None = None
    """What the calls cost together."""
    failures: tuple[str, ...] = ()
    """What went wrong on the way, one line each."""
    checked: Checked | None = None
    """What its check found; `None` where it was not checked."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        checked = None if self.checked is None else self.checked.to_json()
        return {**asdict(self), "failures": list(self.failures), "checked": checked}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Draft":
        """Return the draft that `to_json` wrote."""
        usage, checked = data["usage"], data.get("checked")
        made = {
            "usage": None if usage is None else Usage(**usage),
            "failures": tuple(data["failures"]),
            "checked": None if checked is None else Checked.from_json(checked),
        }
        return cls(**{**data, **made})


def new_id() -> str:
    """Return an id that no other plan has."""
    return uuid4().hex


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A list of edits that belong together."""

    reason: Reason
    edits: tuple[Edit, ...]
    tokens_before: int
    """Estimated tokens of the whole request before the edits."""
    tokens_after: int
    """Estimated tokens of the whole request after the edits."""
    id: str = field(default_factory=new_id)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**vars(self), "edits": [edit.to_json() for edit in self.edits]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Plan":
        """Return the plan that `to_json` wrote."""
        edits = tuple(map(Edit.from_json, data["edits"]))
        return cls(**{**data, "reason": Reason(data["reason"]), "edits": edits})


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What came of one compression."""

    plan_id: str
    reason: Reason
    outcome: Literal["applied", "unneeded", "failed"]
    """`unneeded`: below the trigger, or nothing would have been gained. `failed`: the context is as it was."""
    tokens_before: int
    tokens_after: int
    limit_tokens: int
    """Tokens of the trigger that was looked at."""
    messages_compressed: int = 0
    blocks_shortened: int = 0
    summary: Literal["warm", "structured", "staged", "extractive", "none"] = "none"
    """How the summary was made."""
    reference: str | None = None
    """Where what left the context is stored; `None` where it is not."""
    is_prepared: bool = False
    """The summary had been made in the background, and nobody waited for it."""
    rules: tuple[str, ...] = ()
    """The strategies that had a part in it, in the order of the ladder."""
    usage: Usage | None = None
    """What the calls for the summary cost; `None` where there were none."""
    stable_tokens: int = 0
    """Tokens at the request's beginning that stay as they are, so that a prompt cache still serves them."""
    why: str = ""
    """Why the compression was due, or why nothing was done, in words."""
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    """What went wrong on the way, one line each."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        lists = {"problems": list(self.problems), "rules": list(self.rules)}
        return {**asdict(self), "reason": str(self.reason), **lists}
