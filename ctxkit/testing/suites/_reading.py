"""Reading a store back as the suites compare it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ctxkit.offload import BLOB, Entry, Record, Store

OWN_KEY = "_ctxkit"
"""The last key that a store may have added to a body."""


async def listed(store: Store, session: str, *, after: int = 0) -> Sequence[Entry]:
    """Return the entries of a session's records."""
    return [entry async for entry in store.list(session, after=after) if entry.kind != BLOB]


async def blobs(store: Store, session: str) -> Sequence[Entry]:
    """Return the entries of a session's blobs."""
    return [entry async for entry in store.list(session) if entry.kind == BLOB]


async def body_of(store: Store, entry: Entry) -> Mapping[str, Any]:
    """Return the body of a record as the JSON object that was appended.

    Raises:
        AssertionError: The range that the entry names is not a JSON object.
    """
    data = await store.get(entry.reference, entry.offset, entry.size)
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    assert isinstance(body, dict), (
        f"get(entry.reference, entry.offset, entry.size) of record {entry.sequence} is not a JSON object but "
        f"{data[:80]!r}: a record must be there whole"
    )
    body.pop(OWN_KEY, None)
    return body


async def bodies(store: Store, session: str, *, after: int = 0) -> Sequence[Mapping[str, Any]]:
    """Return the bodies of a session's records, in the order of the list."""
    return [await body_of(store, entry) for entry in await listed(store, session, after=after)]


async def ids(store: Store, session: str) -> Sequence[str]:
    """Return the ids that stand in the bodies of a session's records, in the order of the list."""
    return [body["id"] for body in await bodies(store, session)]


def expected(records: Sequence[Record]) -> Sequence[Mapping[str, Any]]:
    """Return the bodies that these records have when they are read back."""
    # A store writes lone surrogates as JSON escapes, which mean the same.
    return [json.loads(record.body) for record in records]


async def check_numbers(store: Store, session: str) -> None:
    """Check that the records are numbered from 1 on without a gap."""
    numbers = [entry.sequence for entry in await listed(store, session)]
    assert numbers == list(range(1, len(numbers) + 1)), "sequences count a session's records from 1 on, without gaps"
