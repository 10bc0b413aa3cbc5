"""Fixtures of the MCP tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from mcp_testing import Raw, Told, raw_spec

from agentwire.mcp.manager import McpManager


@pytest.fixture
def raw() -> Raw:
    return raw_spec


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def manager(told: Told) -> AsyncIterator[McpManager]:
    async with McpManager(on_tools_changed=told.change, on_notice=told.notice, on_failed=told.failure) as open_manager:
        yield open_manager
