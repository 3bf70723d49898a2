"""What `import ctxkit` gives and what it leaves alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ctxkit

HEAVY = ("agentscope", "tiktoken", "numpy", "pydantic", "rich", "typer")


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_ctxkit_imports_neither_the_host_nor_a_tokenizer():
    code = f"import sys, ctxkit; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run_python(code) == "[]"


def test_reading_an_error_or_a_section_of_the_configuration_does_not_import_the_host():
    code = (
        "import sys, ctxkit; ctxkit.StoreError, ctxkit.ResultsConfig, ctxkit.Plan; print('agentscope' in sys.modules)"
    )
    assert run_python(code) == "False"


def test_every_public_name_is_exported_once_and_lives_in_a_room():
    assert sorted(ctxkit.__all__) == sorted(ctxkit._HOME)
    assert len(ctxkit.__all__) == len(set(ctxkit.__all__))


def test_type_checkers_and_the_interpreter_are_told_the_same_names():
    tree = ast.parse(Path(ctxkit.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == ctxkit._HOME


def test_dir_lists_every_public_name():
    assert set(ctxkit.__all__) <= set(dir(ctxkit))


def test_an_unknown_name_is_an_attribute_error_that_says_so():
    with pytest.raises(AttributeError, match="module 'ctxkit' has no attribute 'Compressor'"):
        _ = ctxkit.Compressor


def test_an_unknown_name_cannot_be_imported():
    with pytest.raises(ImportError, match="Compressor"):
        exec("from ctxkit import Compressor", {})


@pytest.mark.parametrize("name", [name for name, room in ctxkit._HOME.items() if not room.startswith("ctxkit.host")])
def test_a_public_name_is_defined_where_it_is_said_to_be(name):
    assert getattr(ctxkit, name).__name__ == name
