"""Verification of a summary before it is used: one check a file, all of them pure and without a model."""

from ctxkit.summary.verify.check import Verified, verify_fields
from ctxkit.summary.verify.claims import MARK, RECORD, Claim, claims_in
from ctxkit.summary.verify.instructions import REPORTED
from ctxkit.summary.verify.kept import ADDED, Fact, facts_to_keep
from ctxkit.summary.verify.sources import Sources

__all__ = [
    "ADDED",
    "MARK",
    "RECORD",
    "REPORTED",
    "Claim",
    "Fact",
    "Sources",
    "Verified",
    "claims_in",
    "facts_to_keep",
    "verify_fields",
]
