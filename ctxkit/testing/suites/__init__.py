"""Conformance suites: every promise of a back end as a test that a user's own back end inherits. They need pytest."""

from pkgutil import iter_modules

import pytest

# Before they are imported, or a comparison that fails does not say what was compared.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
