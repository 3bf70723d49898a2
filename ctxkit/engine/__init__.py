"""The engine: measure, decide, plan, store, swap, record."""

from ctxkit.engine.admit import Admitted, admit_result
from ctxkit.engine.engine import Engine
from ctxkit.engine.prepare import Preparation
from ctxkit.engine.request import RequestFitter
from ctxkit.engine.watch import Look

__all__ = ["Admitted", "Engine", "Look", "Preparation", "RequestFitter", "admit_result"]
