"""Training on TRL and accelerate: the chat template, supervised fine-tuning, GRPO on GPUs, and what a run of them costs."""
