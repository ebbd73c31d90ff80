"""What surrounds Gradio: our Blocks, middleware for hosts and origins and for sizes and paths, and routes for downloads."""
