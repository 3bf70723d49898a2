"""Memory: what left contexts, written to a daily file and found again, and the files of every system prompt."""

from ctxkit.memory.bootstrap import Bootstrap, BootstrapFiles
from ctxkit.memory.entry import Flushed, Leaving
from ctxkit.memory.flush import MemoryWriter, Written
from ctxkit.memory.memory import LOG_NAME, Memory
from ctxkit.memory.responses import CallableModel, text_of
from ctxkit.memory.search import MemoryHit

__all__ = [
    "LOG_NAME",
    "Bootstrap",
    "BootstrapFiles",
    "CallableModel",
    "Flushed",
    "Leaving",
    "Memory",
    "MemoryHit",
    "MemoryWriter",
    "Written",
    "text_of",
]
