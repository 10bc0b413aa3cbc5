"""The peer's whole program: pagent's LLM and agent loop, prompts in as lines, its wire's lines out.

The base URL of the model service is its argument.
"""

import asyncio
import sys

from pagent import Agent, Session
from pagent.llm import LLM


async def main() -> None:
    """One prompt a line, until there are no more; each in a session of its own."""
    model = LLM("test-model", base_url=sys.argv[1], apikey="sk-none")  # type: ignore[no-untyped-call]
    while prompt := sys.stdin.readline():
        agent = Agent(model, Session())  # type: ignore[no-untyped-call]
        async for line in agent.arun_wire(prompt):
            sys.stdout.write(line)
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
