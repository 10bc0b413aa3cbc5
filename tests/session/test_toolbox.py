"""The tools of a session: who hides whom, and names that follow a policy."""

from __future__ import annotations

import pytest
from scripted import Model, Probe, Reply, bench, calling, of

from agentwire.agent.toolbox import Toolbox, renamed
from agentwire.events import CallFinished, HostTool
from agentwire.policy import Policy
from agentwire.tools import builtin_tools
from agentwire.tools.contract import ReadCache, ToolContext

NAMES = {
    "Read": "read", "Write": "write", "Edit": "edit", "ExecCommand": "shell", "Glob": "glob", "Grep": "grep",
    "Spawn": "", "ViewImage": "",
}  # fmt: skip


def context(tmp_path) -> ToolContext:
    return ToolContext(workspace=tmp_path, cache=ReadCache())


def test_other_names_and_what_descriptions_say_of_them():
    tools = {tool.name: tool for tool in renamed(builtin_tools(), NAMES)}
    assert list(tools) == ["read", "write", "edit", "shell", "glob", "grep"]
    assert tools["write"].description.endswith("use edit.")
    assert "Prefer read, write, edit, glob and grep where" in tools["shell"].description
    assert tools["read"].description.startswith("Read a text file")  # that is a verb
    originals = {tool.name: tool for tool in builtin_tools()}
    assert originals["Write"].description.endswith("use Edit.")
    assert originals["Read"].name == "Read"


@pytest.mark.parametrize("tool", builtin_tools(), ids=lambda tool: tool.name)
def test_whoever_speaks_of_another_says_so(tool):
    named = {other.name for other in builtin_tools() if f"use {other.name}" in tool.description}
    named |= {"Read", "Write", "Edit", "Glob", "Grep"} if "Prefer" in tool.description else set()
    assert named == set(tool.mentions)


def test_without_other_names_they_are_what_they_were():
    tools = builtin_tools()
    assert all(one is other for one, other in zip(tools, renamed(tools, {}), strict=True))


async def test_a_renamed_tool_works_under_its_other_name(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    model = Model(calling("read", {"file_path": "a.txt"}), calling("Read", {"file_path": "a.txt"}), Reply("ok"))
    tools = renamed(builtin_tools(), NAMES)
    async with bench(model, tmp_path, policy=Policy(free=frozenset({"info"})), tools=tools, mode="yolo") as b:
        finished = of(CallFinished, await b.finish())
        assert [(event.name, event.status) for event in finished] == [("read", "ok"), ("Read", "error")]
        assert finished[1].output == "Unknown tool: Read"


def test_what_came_earlier_is_never_hidden(tmp_path):
    toolbox = Toolbox([Probe("a"), Probe("b")])
    toolbox.host.set([HostTool("b", "the host's b", {}), HostTool("c", "the host's c", {})])
    toolbox.set_foreign([Probe("c"), Probe("d"), Probe("a")])
    offered = toolbox.offered(context(tmp_path))
    assert [spec.name for spec in offered] == ["a", "b", "c", "d"]
    assert offered[2].description == "the host's c"
    assert offered[1].description == ""
    assert toolbox.names == {"a", "b", "c", "d"}
    assert toolbox.own_names == {"a", "b", "c"}
    assert toolbox.find("c") is toolbox.host.tools["c"]
    assert toolbox.find("e") is None


def test_a_session_without_a_host_has_no_host_tools():
    toolbox = Toolbox([Probe("a")])
    assert not toolbox.has_host
    assert toolbox.find("b") is None
    assert not toolbox.has_host
    assert toolbox.host.tools == {}
    assert toolbox.has_host
