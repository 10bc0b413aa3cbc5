"""Where what a play describes is not enough: whole runs of good peers, and what others do wrong in them."""

from __future__ import annotations

GOOD = {}
WRONG = {}
