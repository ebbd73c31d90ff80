"""The same judge for programs: endpoints, the videos they name, MCP."""
