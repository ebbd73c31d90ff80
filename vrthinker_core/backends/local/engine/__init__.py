"""Running a model: prefill into a KV cache, decode steps alone or in a batch, the vision encoder, sampling."""
