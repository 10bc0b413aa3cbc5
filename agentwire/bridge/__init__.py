"""A host of one wire drives an agent of another, live.

To the host a bridge is our own server, with everything that its wire can do. Each of its sessions has an agent that is
a process of another wire: :class:`~agentwire.bridge.agent.RemoteAgent` sends it what the host asks, and puts what it
tells into the session's log as if it had happened here. Whatever cannot cross is refused in the host's own form or
counted in a :class:`~agentwire.bridge.report.Report`.
"""
