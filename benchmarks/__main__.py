"""The command: ``python benchmarks``."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # Started as a folder: its modules would lie about as `report`, `timing` and so on.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.command import main

main()
