"""Web server of the voice studio.

It serves the web page, and forwards API requests to the runtime (the process that generates speech).
"""
