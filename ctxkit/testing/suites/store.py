"""`StoreSuite`: every promise of a store as a test."""

from ctxkit.testing.suites._store_apart import ApartPromises
from ctxkit.testing.suites._store_blobs import BlobPromises
from ctxkit.testing.suites._store_crash import CrashPromises
from ctxkit.testing.suites._store_offers import DeletePromises, SearchPromises, StreamPromises
from ctxkit.testing.suites._store_outage import OutagePromises
from ctxkit.testing.suites._store_owners import FencePromises, LeasePromises
from ctxkit.testing.suites._store_records import RecordPromises
from ctxkit.testing.suites._store_tasks import CancelPromises, ClientPromises, TaskPromises


class StoreSuite(
    RecordPromises,
    BlobPromises,
    ApartPromises,
    TaskPromises,
    CancelPromises,
    ClientPromises,
    DeletePromises,
    StreamPromises,
    SearchPromises,
    FencePromises,
    LeasePromises,
    OutagePromises,
    CrashPromises,
):
    """Every promise of `ctxkit.offload.Store`, and of each capability that a store offers, as a test.

    Subclass it in a test module, give it `open_store`, and run pytest; no plugin is needed:

        class TestMine(StoreSuite):
            def open_store(self, place):
                return MyStore(place)

    What a back end does not offer is skipped, and the reason says so. The tests kill processes of their own; a full
    run on files takes about ten seconds.
    """
