"""Running a model: from prompt items to sampled tokens.

generation.py       one reply: prefill, step, sample; Sampler; LoadedModel
kv_cache.py         PrefixCache: the KV cache of a conversation, prefill and decode one token
decode_step.py      DecodeStep: one decode step of a batch in fixed tensors; capture_cuda_graph
multi_step.py       MultiStepDecoder: greedy decode steps of one reply between two GPU synchronisations
batched_cache.py    BatchedCache: several KV caches in common tensors, decoded in one step
batch_decoding.py   stream_batch: several requests at once
vision_encoder.py   VisionEncoder: frames to image features, cached
attention.py        attention on a CPU
threads.py          how many threads torch uses
"""
