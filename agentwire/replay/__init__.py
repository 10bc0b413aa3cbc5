"""Recordings at work again: shown, told once more, and answering a host as the agent did that was recorded."""

from __future__ import annotations
