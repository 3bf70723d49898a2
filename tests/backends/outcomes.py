"""Runs a whole suite without pytest's collection, to see which of its tests fail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest


def failures(suite: Any, tmp_path: Path, *, but: str = "") -> Mapping[str, BaseException]:
    """Return what each test that fails has raised, by its name.

    Args:
        suite: An instance of the class.
        tmp_path: Each test gets a directory in it.
        but: Tests with this word in their name are left out.
    """
    found: dict[str, BaseException] = {}
    for number, name in enumerate(name for name in sorted(dir(suite)) if name.startswith("test_")):
        if but and but in name:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            getattr(suite, name)(folder)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception) as exc:  # noqa: BLE001 - whatever it is, it is a failure
            found[name.removeprefix("test_")] = exc
    return found
