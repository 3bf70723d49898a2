"""What tests need, ctxkit's and its users': a scripted model, true token counts, a provider on a local socket.

Names are imported when they are used: `ctxkit.testing.tokenizers` and `ctxkit.testing.refusals` need no AgentScope.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ctxkit.testing.provider import FakeProvider, ProviderRequest, Refusal
    from ctxkit.testing.refusals import overflow_body, overflow_error, sdk_error
    from ctxkit.testing.scripted import BreakOff, ScriptedModel, ScriptedRequest, call, plain_summary
    from ctxkit.testing.suites.offloader import OffloaderSuite
    from ctxkit.testing.suites.session import SessionStoreSuite
    from ctxkit.testing.suites.store import StoreSuite
    from ctxkit.testing.tokenizers import RequestCounter, tokenizer
    from ctxkit.testing.wire import Reply

_HOME: Final = {
    "BreakOff": "scripted",
    "FakeProvider": "provider",
    "OffloaderSuite": "suites.offloader",
    "ProviderRequest": "provider",
    "Refusal": "provider",
    "Reply": "wire",
    "RequestCounter": "tokenizers",
    "ScriptedModel": "scripted",
    "ScriptedRequest": "scripted",
    "SessionStoreSuite": "suites.session",
    "StoreSuite": "suites.store",
    "call": "scripted",
    "overflow_body": "refusals",
    "overflow_error": "refusals",
    "plain_summary": "scripted",
    "sdk_error": "refusals",
    "tokenizer": "tokenizers",
}

__all__ = [
    "BreakOff",
    "FakeProvider",
    "OffloaderSuite",
    "ProviderRequest",
    "Refusal",
    "Reply",
    "RequestCounter",
    "ScriptedModel",
    "ScriptedRequest",
    "SessionStoreSuite",
    "StoreSuite",
    "call",
    "overflow_body",
    "overflow_error",
    "plain_summary",
    "sdk_error",
    "tokenizer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
