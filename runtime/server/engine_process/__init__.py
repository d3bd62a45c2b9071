"""Engine in a separate process, so that sockets and frames do not share one interpreter.

`EngineClient` represents the engine in the server's process; `__main__` is the engine's process.
"""
