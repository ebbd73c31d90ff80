"""Text that every file, terminal and browser takes."""


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: half characters, as a stray byte on a command line leaves them, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
