"""Reading a reply: one tolerant parser for both protocols, from characters to tags, segments, tool calls and labels."""
