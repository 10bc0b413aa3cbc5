"""``python -m agentwire``: the same as the ``agentwire`` command."""

from agentwire.cli import main

if __name__ == "__main__":
    main()
