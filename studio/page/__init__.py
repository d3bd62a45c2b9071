"""Page of the studio: Gradio's blocks, its routes, and what protects them."""
