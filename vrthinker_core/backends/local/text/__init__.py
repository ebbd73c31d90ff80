"""Messages to prompt tokens (chat template, tokenizer), and reply tokens to text (detokenizer)."""
