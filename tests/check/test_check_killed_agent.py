"""A host that kills its agent, and stays."""

from __future__ import annotations

import sys

import pytest
import trio

from agentwire import load_codec
from agentwire.check.catalogue import catalogue
from agentwire.check.hosts import check_host

pytestmark = pytest.mark.slow

HOST = """
import subprocess, sys, time
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
agent.stdout.read(1)
agent.kill()
time.sleep(600)
"""


async def test_a_host_that_kills_its_agent_and_stays_is_not_waited_for() -> None:
    asked = catalogue(load_codec("aionrs"), "host", ("talk",))
    with trio.fail_after(60):
        (finding,) = await check_host([sys.executable, "-c", HOST, "{agent}"], "aionrs", asked, patience=3)
    assert finding.verdict == "failed"
    assert finding.why == "the host killed its agent without closing its input"
