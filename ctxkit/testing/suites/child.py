"""A process of its own that runs one method of a suite: `python -m ctxkit.testing.suites.child FILE MODULE CLASS PLACE METHOD ARG...`.

The method gets what the class opens on the place, a function that says something to the process that started this one,
and the arguments.
"""

import asyncio
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def say(text: str) -> None:
    """Tell the parent a line, which it has as soon as this returns, whatever happens to this process."""
    os.write(1, text.encode() + b"\n")


def load(file: str, module: str, qualname: str) -> Any:
    """Return a class of a user's test module.

    Args:
        file: The file that defines it.
        module: The name under which pytest has imported it.
        qualname: The class in it.
    """
    found: Any = _module(file, module)
    for name in qualname.split("."):
        found = getattr(found, name)
    return found


def _module(file: str, name: str) -> ModuleType:
    parts = name.split(".")
    if Path(file).with_suffix("").parts[-len(parts) :] == tuple(parts):
        # Its packages need not be on the path: pytest may have imported it by its file.
        sys.path.append(str(Path(file).parents[len(parts) - 1]))
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            module = ModuleType(name)
        if getattr(module, "__file__", None) == file:
            return module
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        msg = f"{file!r} cannot be imported: define the class in a Python file."
        raise ImportError(msg)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def main(file: str, module: str, qualname: str, place: str, method: str, *args: str) -> None:
    """Say that all is imported, wait for a line, open the place as the class does, and run the method."""
    suite = load(file, module, qualname)()
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    opened = suite._open(Path(place))  # noqa: SLF001 - the child is a part of the suite
    opened = await opened if inspect.isawaitable(opened) else opened
    try:
        await getattr(suite, method)(opened, say, *args)
    finally:
        await suite._close(opened)  # noqa: SLF001 - as above


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
