"""MCP servers as a source of tools: the client side of the Model Context Protocol.

The official SDK does the handshake, the request bookkeeping and the HTTP transports; this package adds what an
agent needs around it: servers that are started, watched, restarted and ended in good order
(:class:`agentwire.mcp.manager.McpManager`), tool names and schemas that every model service accepts
(:mod:`agentwire.mcp.naming`, :mod:`agentwire.mcp.schema`) and results a model can read
(:mod:`agentwire.mcp.content`).

Importing the SDK takes about half a second. Only :mod:`agentwire.mcp.connection` and the two transport modules
below it do so, and they are imported on a worker thread when the first server is connected.
"""
