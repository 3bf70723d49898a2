"""`SessionStoreSuite`: every promise of a session store as a test."""

from ctxkit.testing.suites._session import SessionPromises


class SessionStoreSuite(SessionPromises):
    """Every promise of `ctxkit.sessions.SessionStore` as a test.

    Subclass it in a test module, give it `open_store`, and run pytest; no plugin is needed:

        class TestMine(SessionStoreSuite):
            def open_store(self, place):
                return MySessionStore(place)
    """
