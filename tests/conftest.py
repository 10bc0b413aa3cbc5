"""What all tests share."""

import os

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("support")

# Continuous integration tries the same examples every time: what it says is about the change, not about luck.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
