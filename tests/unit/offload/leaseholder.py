"""A process of its own that takes a lease; run by the tests of locks.

Usage: `python leaseholder.py FOLDER NAME` holds it and says its epoch, until its input ends;
`python leaseholder.py FOLDER NAME COUNT` takes it so many times, and looks each time that it is alone.
"""

import os
import sys
from pathlib import Path

from ctxkit.offload.locks.file_lease import take


def hold(folder: str, name: str) -> None:
    lease = take(folder, name, owner={"by": "the other process"}, timeout_s=30)
    sys.stdout.write(f"{lease.epoch}\n")
    sys.stdout.flush()
    sys.stdin.read()
    lease.release()


def contend(folder: str, name: str, count: int) -> None:
    inside = Path(folder, "inside")
    for _ in range(count):
        lease = take(folder, name, owner={"by": str(os.getpid())}, timeout_s=60)
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # fails where another one is inside
        sys.stdout.write(f"{lease.epoch}\n")
        inside.unlink()
        lease.release()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        hold(*sys.argv[1:])
    else:
        contend(sys.argv[1], sys.argv[2], int(sys.argv[3]))
