"""The redactor that is used where no other one is named."""

from typing import Final

from ctxkit.config import PrivacyConfig
from ctxkit.offload.redact.secrets import SecretRedactor
from ctxkit.offload.redact.text import Redactor

DEFAULT_REDACTOR: Final = SecretRedactor()
"""One for the whole process, and so are its `counts`."""


def redactor_of(privacy: PrivacyConfig) -> Redactor | None:
    """Return the redactor that a config wants: its own, ctxkit's, or None where redaction is off."""
    if not privacy.redact:
        return None
    return privacy.redactor or DEFAULT_REDACTOR
