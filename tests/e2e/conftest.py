"""Fixtures of the end-to-end tests."""

from support.serving import launch, model

__all__ = ["launch", "model"]
