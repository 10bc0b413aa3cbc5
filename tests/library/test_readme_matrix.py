"""The README's matrix says what the codecs declare."""

from __future__ import annotations

from pathlib import Path

from agentwire import load_codec
from agentwire.codec.fidelity import matrix_table
from agentwire.registry import CODECS, names


def test_the_matrix_is_the_codecs_own():
    readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    _, _, rest = readme.partition("<!-- matrix -->\n")
    table, _, _ = rest.partition("\n<!-- /matrix -->")
    assert table == matrix_table({name: load_codec(name).fidelity() for name in names(CODECS)}).strip()
