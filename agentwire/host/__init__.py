"""The host side: driving an agent, in this process or in one of its own."""
