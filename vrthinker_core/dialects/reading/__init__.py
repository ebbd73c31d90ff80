"""The tolerant reply parser of both protocols.

The parser goes from characters to tags, segments, tool calls and labels.
"""
