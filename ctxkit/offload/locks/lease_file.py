"""The file of a lease: one JSON document that says who holds it, and the last epoch, which no torn write takes back.

    {"pid":123,"createdAt":1708000000000,"startTime":457,"host":"m1","owner":{"agent":"scribe"},"epoch":8
    ,"fence":[{"epoch":7,"crc":"3b1f4c2a"}
    ,{"epoch":8,"crc":"6d0a9f11"}]}

Each line has a fixed width. The first one is for people and for the messages of errors: it is written in place, and
nothing depends on it. The epoch stands in two lines that are written in turn, so that one of them is always whole.
"""

import json
import os
import zlib
from dataclasses import replace
from typing import Final

from ctxkit.offload.directory import read_at, sync_file
from ctxkit.offload.locks.holder import Holder

_RECORD_BYTES: Final = 1024
_SLOT_BYTES: Final = 64
_OPENINGS: Final = (b',"fence":[', b",")
_ENDINGS: Final = (b"", b"]}")


def read_holder(descriptor: int) -> Holder | None:
    """Return the holder that was written last; `None` where nothing readable stands there."""
    return decode(read_at(descriptor, _RECORD_BYTES, 0).rstrip() + b"}")


def read_epoch(descriptor: int) -> int:
    """Return the last epoch that was ever written; 0 where none was."""
    return max(epoch for epoch, _ in _slots(descriptor))


def write_epoch(descriptor: int, epoch: int) -> None:
    """Write an epoch and return when it has reached the disk; the one before stays until then."""
    slots = _slots(descriptor)
    older, newer = (0, 1) if slots[0] <= slots[1] else (1, 0)
    for place in (older, newer):
        _write(descriptor, _slot(place, epoch), _RECORD_BYTES + place * _SLOT_BYTES)
        sync_file(descriptor)
        if slots[newer][1]:
            break  # the other one is whole: the next epoch is written there


def write_holder(descriptor: int, holder: Holder) -> None:
    """Write who holds the lease, for others to read; it need not reach the disk."""
    os.ftruncate(descriptor, _RECORD_BYTES + 2 * _SLOT_BYTES)  # nothing else stands there
    _write(descriptor, encode(holder, room=_RECORD_BYTES - 2)[:-1].ljust(_RECORD_BYTES - 1) + b"\n", 0)


def encode(holder: Holder, *, room: int = _RECORD_BYTES) -> bytes:
    """Return the record as JSON of at most `room` bytes: what the owner says of itself is left out where it is too long."""
    while True:
        data = json.dumps(holder.to_json(), ensure_ascii=True, separators=(",", ":")).encode("ascii")
        if len(data) <= room or not holder.owner:
            return data
        holder = replace(holder, owner=dict(list(holder.owner.items())[:-1]))


def decode(data: bytes) -> Holder | None:
    """Return the holder that a record names; `None` where it is torn or something else."""
    try:
        return Holder.from_json(json.loads(data))
    except (ValueError, RecursionError):
        return None


def _slots(descriptor: int) -> list[tuple[int, bool]]:
    """Return both epochs, and whether each is whole."""
    found = []
    for place in (0, 1):
        data = read_at(descriptor, _SLOT_BYTES, _RECORD_BYTES + place * _SLOT_BYTES)
        digits = data.removeprefix(_OPENINGS[place] + b'{"epoch":').partition(b",")[0]
        epoch = int(digits) if digits.isdigit() else 0
        is_whole = data == _slot(place, epoch)
        found.append((epoch if is_whole else 0, is_whole))
    return found


def _slot(place: int, epoch: int) -> bytes:
    crc = zlib.crc32(b"%d" % epoch)
    body = b'%s{"epoch":%d,"crc":"%08x"}' % (_OPENINGS[place], epoch, crc)
    return body.ljust(_SLOT_BYTES - 1 - len(_ENDINGS[place])) + _ENDINGS[place] + b"\n"


def _write(descriptor: int, data: bytes, offset: int) -> None:
    os.lseek(descriptor, offset, os.SEEK_SET)  # the lock is held, so nobody else moves it
    while data:
        data = data[os.write(descriptor, data) :]
