"""The suite for offloaders: on ctxkit's own, on the host's workspace and on the example of the host's documentation."""

from __future__ import annotations

import pytest

from ctxkit.host._codec import HostCodec
from ctxkit.host.workspace import LocalWorkspace
from ctxkit.offload import FileStore, MemoryStore, StoreOffloader
from ctxkit.testing import OffloaderSuite


class TestStoreOffloaderInMemory(OffloaderSuite):
    durable = False

    def open_offloader(self, place):
        return StoreOffloader(MemoryStore(), HostCodec())


class TestStoreOffloaderOnFiles(OffloaderSuite):
    def open_offloader(self, place):
        return StoreOffloader(FileStore(place), HostCodec())


@pytest.mark.filterwarnings("ignore:AgentScope itself has compressed:UserWarning")
class TestLocalWorkspace(OffloaderSuite):
    def open_offloader(self, place):
        return LocalWorkspace(workdir=str(place))
