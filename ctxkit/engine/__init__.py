"""The engine: measure, decide, plan, store, swap, record."""

from ctxkit.engine.admit import Admitted, admit_result
from ctxkit.engine.engine import Engine
from ctxkit.engine.request import RequestFitter
from ctxkit.engine.watch import Look

__all__ = ["Admitted", "Engine", "Look", "RequestFitter", "admit_result"]
