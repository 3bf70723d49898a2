"""Strategies make edits from a situation; the engine applies them. One strategy a file, cheapest first in a ladder."""

from ctxkit.strategies._base import Situation, Strategy
from ctxkit.strategies.compress import CompressStrategy
from ctxkit.strategies.images import ImageStrategy
from ctxkit.strategies.shorten import AdmissionStrategy, ShortenStrategy

__all__ = ["AdmissionStrategy", "CompressStrategy", "ImageStrategy", "ShortenStrategy", "Situation", "Strategy"]
