"""Engine in a separate process, so that network I/O and generation do not share a GIL.

`EngineClient` represents the engine in the server process. `__main__` is the engine process.
"""
