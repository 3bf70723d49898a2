"""Keeps what leaves a context: stores, the offloader on them, the guard round any offloader, and recall."""

from ctxkit.offload.chain import StoredPlan, StoredSummary, newest_summary
from ctxkit.offload.files.limits import FileLimits
from ctxkit.offload.files.store import FileStore
from ctxkit.offload.guard import OffloadGuard, Stored, is_guarded
from ctxkit.offload.memory_store import MemoryStore
from ctxkit.offload.names import fsname, result_name
from ctxkit.offload.offloader import Offloader, StoreOffloader
from ctxkit.offload.recall import Mode, Recall, fence
from ctxkit.offload.store import BLOB, MESSAGE, Entry, Record, Store, read_records, record_key

__all__ = [
    "BLOB",
    "MESSAGE",
    "Entry",
    "FileLimits",
    "FileStore",
    "MemoryStore",
    "Mode",
    "OffloadGuard",
    "Offloader",
    "Recall",
    "Record",
    "Store",
    "StoreOffloader",
    "Stored",
    "StoredPlan",
    "StoredSummary",
    "fence",
    "fsname",
    "is_guarded",
    "newest_summary",
    "read_records",
    "record_key",
    "result_name",
]
