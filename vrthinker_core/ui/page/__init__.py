"""The page: its Gradio components, their event handlers, and how it is served."""
