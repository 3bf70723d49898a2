"""Starts the process that forks and kills writers, and tells it the rounds."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .killed import Round

PROGRAM = Path(__file__).with_name("killed.py")
# Whatever was installed for this process, and nothing else: the checkout is not forced on it.
ENVIRONMENT = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}


class Nursery:
    """Runs rounds in a process of its own, which has nothing open and no threads when it forks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
        )

    def run(self, one: Round) -> Sequence[Sequence[str]]:
        """Run a round and return what each writer was told."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(one)).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
