"""A program that a provider runs beside us: the door for provider packages to :mod:`agentwire.children`."""

from agentwire.children.environment import environment as child_environment
from agentwire.children.starting import Child, start_child

__all__ = ["Child", "child_environment", "start_child"]
