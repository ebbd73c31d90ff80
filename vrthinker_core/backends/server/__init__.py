"""The parts of `ServerBackend`, the judge behind an OpenAI-compatible address.

Only this folder and `discover.py` import `openai`.
"""
