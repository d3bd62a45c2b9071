"""Page of the studio: Gradio's blocks, their routes, and access checks."""
