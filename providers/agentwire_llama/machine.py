"""What memory this machine has. Nothing is installed and nothing is asked of the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

_DEVICES = ("dev/nvidia0", "dev/kfd")
_PAGE = re.compile(r"page size of (\d+) bytes")
_PAGES = re.compile(r"^Pages (free|inactive|speculative|purgeable):\s+(\d+)\.", re.MULTILINE)
_PATIENCE = 5.0


class Machine(Struct, frozen=True):
    """Bytes of memory; 0 is unknown."""

    total: int = 0
    """What this process may use at most: the machine's, or its container's."""
    available: int = 0
    """What can be had now without pushing anything out."""
    accelerator: bool = False
    """There may be a GPU with memory of its own, which is not counted."""


def look(root: Path = Path("/")) -> Machine:
    """This machine. ``root`` is where Linux's own files are found, and is for tests."""
    if sys.platform == "darwin":
        return _darwin()
    return linux(root)


def linux(root: Path) -> Machine:
    """As ``/proc`` and the control group say."""
    known = meminfo(_text(root / "proc/meminfo"))
    total, available = known.get("MemTotal", 0), known.get("MemAvailable", 0)
    for limit, usage in (
        ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, used = _number(root / limit), _number(root / usage)
        if 0 < most < total:
            total = most
            available = min(available, max(0, most - used))
    return Machine(total, available, any((root / device).exists() for device in _DEVICES))


def meminfo(text: str) -> dict[str, int]:
    """``/proc/meminfo`` in bytes."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if number.isdecimal():
            found[name] = int(number) * (1024 if unit == "kB" else 1)
    return found


def vm_stat(text: str) -> int:
    """The bytes that macOS's ``vm_stat`` counts as free, or as good as that."""
    page = _PAGE.search(text)
    return int(page[1]) * sum(int(match[2]) for match in _PAGES.finditer(text)) if page else 0


def _darwin() -> Machine:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        told = subprocess.run(["/usr/bin/vm_stat"], capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return Machine(total)  # less is known, and nothing is refused for it
    return Machine(total, vm_stat(told.stdout))


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else 0  # "max" is no limit


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""
