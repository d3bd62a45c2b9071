"""Reverse proxy that serves the runtime's API on the studio's port."""
