"""The parts of `TransformersBackend`. Only this folder and `transformers_local.py` import torch, of all in `backends`."""
