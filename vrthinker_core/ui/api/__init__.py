"""The API: its endpoints, what their calls can be given, MCP."""
