"""The parts of `TransformersBackend`. Only this folder and `transformers_local.py` import torch, of all in `backends`.

conversation.py     LocalConversation: a KV cache of its own; `stream` is the loop over one reply
text/               chat template, tokenizer, streaming detokenizer
engine/             prefill into the KV cache, decode steps one by one, in a batch or as a CUDA graph, sampler, vision encoder
checkpoint/         which files a checkpoint has, whether it fits into memory, loading it and checking every weight
"""
