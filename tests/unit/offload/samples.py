"""Records, and what a store gives back of them."""

import json

from ctxkit.offload import BLOB, Record, Store, lines, read_records, record_key


def record(identifier: str, text: str = "x") -> Record:
    body = json.dumps({"id": identifier, "text": text})
    return Record(key=record_key(identifier, body), body=body)


async def ids(store: Store, session: str = "s") -> list[str]:
    entries = [entry async for entry in store.list(session) if entry.kind != BLOB]
    return [json.loads(lines.bare(data))["id"] async for _, data in read_records(store, entries)]
