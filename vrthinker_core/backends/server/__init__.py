"""The parts of `ServerBackend`: a judge behind an OpenAI-compatible address. Only this folder imports `openai`."""
