"""What the end-to-end tests are built from: a scripted model service, the process under test, MCP servers."""
