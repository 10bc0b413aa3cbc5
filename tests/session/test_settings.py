"""What set-config makes of a session's model settings, field by field."""

from __future__ import annotations

import pytest

from agentwire.commands import SetConfig
from agentwire.events import ConfigChange
from agentwire.settings import COMPACTION_LEVELS, ModelSettings, apply_config, merged

LEVELS = ("low", "medium", "high")
NOW = ModelSettings("a", image_input="supported", compaction="safe")


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (SetConfig(), []),
        (
            SetConfig(model="b"),
            [ConfigChange("model", "a", "b"), ConfigChange("image_input", "supported", "unknown")],
        ),
        (
            SetConfig(model="a", image_input="supported"),
            [ConfigChange("model", "a", "a"), ConfigChange("image_input", "supported", "supported")],
        ),
        (SetConfig(thinking="enabled"), [ConfigChange("thinking", "", "enabled", 10_000)]),
        (SetConfig(thinking="enabled", thinking_budget=7), [ConfigChange("thinking", "", "enabled", 7)]),
        (SetConfig(thinking="disabled", thinking_budget=7), [ConfigChange("thinking", "", "disabled")]),
        (
            SetConfig(thinking="maybe"),
            [ConfigChange("thinking", "", "maybe", problem="invalid", allowed=("enabled", "disabled"))],
        ),
        (SetConfig(thinking_budget=5), []),
        (SetConfig(effort="low"), [ConfigChange("effort", "", "low")]),
        (SetConfig(effort=""), [ConfigChange("effort", "", "")]),
        (SetConfig(effort="LOW"), [ConfigChange("effort", "", "LOW", problem="invalid", allowed=LEVELS)]),
        (SetConfig(compaction="FULL"), [ConfigChange("compaction", "safe", "full")]),
        (
            SetConfig(compaction="x"),
            [ConfigChange("compaction", "safe", "x", problem="invalid", allowed=COMPACTION_LEVELS)],
        ),
    ],
)
def test_changes(command, changes):
    settings, found = apply_config(NOW, command, LEVELS)
    assert found == changes
    for change in changes:
        if change.problem:
            assert getattr(settings, change.field) == getattr(NOW, change.field)
        else:
            assert getattr(settings, change.field) == change.new


def test_a_budget_alone_counts_only_while_thinking_is_on():
    thinking, _ = apply_config(NOW, SetConfig(thinking="enabled"), LEVELS)
    settings, changes = apply_config(thinking, SetConfig(thinking_budget=5), LEVELS)
    assert settings.thinking_budget == 5
    assert changes == [ConfigChange("thinking_budget", "10000", "5", 5)]


def test_effort_where_the_provider_has_none():
    _, changes = apply_config(NOW, SetConfig(effort="high"), ())
    assert changes == [ConfigChange("effort", "", "high", problem="unsupported")]


def test_held_commands_are_merged_field_by_field():
    held = merged(merged(None, SetConfig(model="b", effort="low")), SetConfig(model="c", compaction="off"))
    assert held == SetConfig(model="c", effort="low", compaction="off")
