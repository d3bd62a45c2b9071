"""Page of the studio: Gradio's blocks, their routes, and the protection of these."""
