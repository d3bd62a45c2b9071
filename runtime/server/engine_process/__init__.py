"""Runs the engine in a process of its own, so that sockets and frames do not share one interpreter.

`EngineClient` is the engine as the server's process sees it; `__main__` is the process that holds the real one.
"""
