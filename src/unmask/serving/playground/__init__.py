"""A page at ``/`` that watches canvases denoise. It asks the server as any client does: through the chat dialect."""
