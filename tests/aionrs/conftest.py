"""Fixtures of the tests that run ``agentwire-aionrs``."""

from support.serving import launch, model

__all__ = ["launch", "model"]
