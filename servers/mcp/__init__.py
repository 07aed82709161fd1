"""``/mcp``: agents list and call tools, in standard MCP or in OpenEnv's dialect of it."""
