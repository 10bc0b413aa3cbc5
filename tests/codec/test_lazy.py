"""What a codec names without importing it is there, and is what the contract says."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import pytest

from agentwire import load_codec
from agentwire.codec import AgentSide, Checker, Fidelity, HostSide, Lazily
from agentwire.codec.kit import Kit
from agentwire.registry import CODECS, names


def speaks(protocol: type, made: object) -> bool:
    return {name for name in vars(protocol) if not name.startswith("_")} <= set(dir(made))


@pytest.mark.parametrize("name", names(CODECS))
def test_all_that_a_codec_names_is_there(name: str) -> None:
    codec = load_codec(name)
    assert speaks(AgentSide, codec.agent())
    assert speaks(HostSide, codec.host())
    assert isinstance(codec.fidelity(), Fidelity)
    assert codec.schemas is not None
    assert codec.checker is not None
    assert codec.requirements is not None
    assert codec.recognises is not None
    assert all(isinstance(schema, dict) for schema in codec.schemas().values())
    assert speaks(Checker, codec.checker())
    assert isinstance(codec.requirements(), Kit)
    assert codec.recognises({"nothing": "of any wire"}) is False


def test_naming_imports_nothing() -> None:
    program = (
        "import sys; from agentwire.registry import CODECS, load_codec, names; "
        "[load_codec(name) for name in names(CODECS)]; "
        "print(*[name for name in sys.modules if name.endswith(('_side', '.checker', '.schema', 'requirements'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_signature_is_that_of_what_is_named_without_what_is_given() -> None:
    assert list(signature(Lazily("agentwire_pagent.agent_side:PagentAgent", "classic")).parameters) == ["errors"]


def test_it_calls_with_what_is_given_first() -> None:
    assert Lazily("operator:sub", 10)(3) == 7
    assert Lazily("sys:byteorder")() == sys.byteorder


@pytest.mark.parametrize(("place", "error"), [("no.such.module:x", ImportError), ("sys:nothing", AttributeError)])
def test_what_is_not_there_says_so(place: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Lazily(place)()
