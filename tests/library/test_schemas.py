"""The schemas in schemas/ are the structs' own, and what the library writes is valid under them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import logs

from agentwire import schema

DIRECTORY = Path(__file__).parents[2] / "schemas"


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((DIRECTORY / name).read_text(encoding="utf-8")))


def test_no_drift():
    assert schema.drift(DIRECTORY) == []
    assert {path.name for path in DIRECTORY.iterdir()} == set(schema.all_schemas())


@pytest.mark.parametrize("name", sorted(schema.all_schemas()))
def test_each_is_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(json.loads((DIRECTORY / name).read_text(encoding="utf-8")))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs())
def test_journal_records_are_valid(records):
    check = validator("journal.record.json")
    for record in records:
        check.validate(json.loads(msgspec.json.encode(record)))


def test_a_file_that_says_something_else_is_found(tmp_path):
    assert schema.write(tmp_path) == sorted(schema.all_schemas(), key=list(schema.all_schemas()).index)
    assert schema.drift(tmp_path) == []
    (tmp_path / "bus.events.json").write_text("{}")
    assert schema.drift(tmp_path) == ["bus.events.json"]
