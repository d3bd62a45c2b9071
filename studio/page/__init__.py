"""The studio's web page: its HTML, Gradio's API, their routes, and access checks."""
