"""`OffloaderSuite`: what an agent relies on in an offloader, as tests."""

from ctxkit.testing.suites._offloader_content import ContentPromises, MediaPromises
from ctxkit.testing.suites._offloader_crash import CrashPromises
from ctxkit.testing.suites._offloader_tasks import ClientPromises, TaskPromises


class OffloaderSuite(ContentPromises, MediaPromises, TaskPromises, ClientPromises, CrashPromises):
    """What an agent relies on in an offloader, whether it stands on a store of ctxkit's or not, as tests.

    Subclass it in a test module, give it `open_offloader`, and `read` where a reference is not a path, and run pytest:

        class TestMine(OffloaderSuite):
            def open_offloader(self, place):
                return MyOffloader(prefix=str(place))

            async def read(self, offloader, reference):
                return await offloader.download(reference)

    An offloader that fails some of it can be used all the same: ctxkit guards its calls and keeps a copy that it can
    read back. What fails says what the agent may miss where it reads by the reference.
    """
