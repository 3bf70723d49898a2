"""A file system of its own in a file, of which the power can be cut."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

MEGABYTES: Final = 400
"""mkfs.xfs makes none below 300."""
MAKE: Final = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}


class LoopDisk:
    """A file system on a loop device; use it as a context manager, which leaves nothing mounted.

    Args:
        place: A directory for the image and the mount point.
        kind: `"ext4"` or `"xfs"`.
    """

    def __init__(self, place: Path, kind: str) -> None:
        self.kind = kind
        self.mount_point = place / f"mounted-{kind}"
        self._image = place / f"{kind}.img"

    def power_on(self) -> None:
        """Mount it; the journal is replayed."""
        subprocess.run(
            ["mount", "-t", self.kind, "-o", "loop", self._image, self.mount_point], check=True, capture_output=True
        )

    def power_off(self) -> None:
        """Unmount it, after its power was cut."""
        subprocess.run(["umount", self.mount_point], check=True, capture_output=True)

    def __enter__(self) -> "LoopDisk":
        program, *options = MAKE[self.kind]
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            pytest.skip("only root may mount a file system and cut its power")
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} here: install {'e2fsprogs' if self.kind == 'ext4' else 'xfsprogs'}")
        self.mount_point.mkdir()
        with self._image.open("wb") as image:
            image.truncate(MEGABYTES << 20)
        subprocess.run([program, *options, self._image], check=True, capture_output=True)
        try:
            self.power_on()
        except subprocess.CalledProcessError as exc:
            pytest.skip(f"no {self.kind} can be mounted on a loop device here: {exc.stderr.decode().strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        if os.path.ismount(self.mount_point) and subprocess.run(["umount", self.mount_point], check=False).returncode:
            subprocess.run(["umount", "--lazy", self.mount_point], check=False)
        self._image.unlink()
