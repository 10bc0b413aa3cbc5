"""The pytest plugin: recordings as peers in other people's tests."""

from __future__ import annotations

import sys

import pytest
from replaying import ANSWERS, ASKING, RECORDINGS, serve, talk

from agentwire.testing import RecordedAgent, RecordedHost

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]


async def test_the_fixtures_are_there_without_being_asked_for(pytester, tmp_path):
    await talk(serve(tmp_path, "aionrs"), "aionrs", tmp_path / "talk.jsonl")
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makepyfile(
        f"""
        import subprocess

        async def test_my_host(recorded_agent):
            agent = recorded_agent({str(tmp_path / "talk.jsonl")!r})
            async with agent.connect(on_approval=lambda question: True) as peer:
                assert await peer.ask("hi") == "It is done."

        async def test_my_host_says_something_else(recorded_agent):
            agent = recorded_agent({str(tmp_path / "talk.jsonl")!r})
            async with agent.connect(on_approval=lambda question: True) as peer:
                assert await peer.ask("other") == "It is done."

        def test_any_program_can_be_the_host(recorded_agent):
            agent = recorded_agent({str(RECORDINGS / "single_turn.jsonl")!r})
            done = subprocess.run(agent.argv, input=b'{{"cmd": "user", "text": "x"}}', capture_output=True)
            assert done.stdout == open(agent.path, "rb").read()

        def test_my_agent(recorded_host):
            host = recorded_host({str(tmp_path / "talk.jsonl")!r})
            turns = host.run({serve(tmp_path, "aionrs")!r})
            assert [turn.text for turn in turns] == [turn.text for turn in host.recorded]
            assert turns[0].calls == ["ExecCommand"]
            assert {{turn.outcome for turn in turns}} == {{"completed"}}
        """
    )
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(["*another text*"])


def test_the_plugin_imports_nothing_heavy(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_it():
            assert "agentwire.testing" in sys.modules
            assert not {"trio", "httpx", "mcp", "rich", "agentwire.host.connect"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:trio", "-p", "no:anyio").assert_outcomes(passed=1)


@pytest.mark.parametrize("codec", ASKING)
@pytest.mark.parametrize("allow", [True, False])
async def test_a_recorded_host_answers_as_it_did(codec, allow, tmp_path):
    await talk(serve(tmp_path, codec), codec, tmp_path / "r", allow=allow)
    host = RecordedHost(tmp_path / "r")
    turns = await host.drive(serve(tmp_path, codec), cwd=tmp_path)
    assert [turn.text for turn in turns] == ANSWERS
    kinds = [type(event).__name__ for event in turns[0].events]
    assert ("CallFinished" in kinds, "CallCancelled" in kinds) == (allow, not allow)


async def test_a_host_and_an_agent_of_the_same_recording_agree(tmp_path):
    path = tmp_path / "r"
    await talk(serve(tmp_path, "jan"), "jan", path)
    turns = await RecordedHost(path).drive(RecordedAgent(path).argv, cwd=tmp_path)
    assert [turn.text for turn in turns] == ANSWERS


async def test_a_log_of_an_agent_tells_what_its_user_said():
    host = RecordedHost(RECORDINGS / "two_runs_one_session.jsonl")
    assert len(host.prompts) == 2
    turns = await host.drive(RecordedAgent(host_path()).argv)
    assert [turn.text for turn in turns] == [turn.text for turn in host.recorded]
    assert all(turn.text for turn in turns)


def host_path():
    return RECORDINGS / "two_runs_one_session.jsonl"


def test_the_example_in_the_documentation_is_whole():
    import agentwire.testing

    assert "recorded_agent(" in str(agentwire.testing.__doc__)
    compile("\n".join(line[4:] for line in str(agentwire.testing.__doc__).split("::\n")[1].splitlines()), "doc", "exec")
    assert sys.version_info >= (3, 11)
