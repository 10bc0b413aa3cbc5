"""What a codec names without importing it: serving needs one side of a wire, and no table, schema or checker."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature


class Lazily:
    """A callable that is somewhere else, as an entry point names it: ``"package.module:name"``.

    It is imported when it is called, or asked for its signature. What cannot be called, such as a table, is the result
    itself. ``first`` are positional arguments that go before those of the call.
    """

    def __init__(self, place: str, *first: Any) -> None:
        self.place = place
        self._first = first

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Call it. Raises :class:`ImportError` or :class:`AttributeError` if it is not where it should be."""
        found = self._found()
        return found(*self._first, *given, **options) if callable(found) else found

    @property
    def __signature__(self) -> Signature:
        from inspect import signature  # slow to import, and only asked for when there are options

        return signature(partial(self._found(), *self._first))

    def __repr__(self) -> str:
        return f"Lazily({self.place!r})"

    def _found(self) -> Any:
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)
