"""The parts of `TransformersBackend`. Nothing outside this folder and `transformers_local.py` in `backends` imports torch."""
