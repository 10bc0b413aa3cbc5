"""The default system prompt: where the agent is, and what the workspace asks of it."""

from __future__ import annotations

import datetime
import logging
import platform
from functools import lru_cache
from pathlib import Path

logger = logging.getLogger("agentwire.prompt")

INSTRUCTIONS = "AGENTS.md"
LONGEST_INSTRUCTIONS = 64 * 1024

TEMPLATE = """\
You are a capable assistant working for a person through tools. Use the tools to look before you answer and to act \
when asked; say briefly what you did. If a tool is denied, respect that and say what you would need.

Working directory: {workspace}
Platform: {platform}
Today's date: {date}"""


def system_prompt(workspace: Path, today: datetime.date | None = None) -> str:
    """Working directory, platform, date, and the workspace's AGENTS.md if it has one. Reads a file."""
    text = _situation(workspace, today or datetime.date.today())
    instructions = _instructions(workspace)
    return f"{text}\n\nInstructions of this workspace ({INSTRUCTIONS}):\n{instructions}" if instructions else text


@lru_cache(maxsize=64)  # so that the turns of a day that are under way in one workspace share one text
def _situation(workspace: Path, today: datetime.date) -> str:
    system = f"{platform.system()} {platform.release()}"
    return TEMPLATE.format(workspace=workspace, platform=system, date=today.isoformat())


def _instructions(workspace: Path) -> str:
    """The file's text. Only a regular file that lies in the workspace itself counts: whoever wrote the workspace
    could make it a link to a secret, or a device that never ends."""
    try:
        path = (workspace / INSTRUCTIONS).resolve(strict=True)
        if not path.is_relative_to(workspace.resolve()) or not path.is_file():
            logger.warning("%s is not a file of the workspace: ignored", workspace / INSTRUCTIONS)
            return ""
        with path.open("rb") as file:
            data = file.read(LONGEST_INSTRUCTIONS)
    except FileNotFoundError:
        return ""
    except OSError as error:
        logger.warning("cannot read %s: %s", workspace / INSTRUCTIONS, error)
        return ""
    return data.decode("utf-8", errors="replace").strip()
