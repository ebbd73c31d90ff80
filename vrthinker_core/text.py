"""Text that every file, terminal and browser takes, and how a page's policy names a text inside it."""

import base64
import hashlib


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: half characters, as a stray byte on a command line leaves them, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def policy_hash(text: str) -> str:
    """The source that a Content Security Policy names an inline script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
