"""Engine in a separate process, so that sockets and frame generation do not share a GIL.

`EngineClient` represents the engine in the server process. `__main__` is the engine process.
"""
