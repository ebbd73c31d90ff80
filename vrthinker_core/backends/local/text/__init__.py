"""Messages to prompt tokens, and reply tokens to text."""
