"""The reply parser of both protocols: characters, tags, segments, calls, labels."""
