"""Around Gradio: what is done to its blocks, who may talk to the server, how much may come in, what can be downloaded."""
