"""Engine in a separate process, so that sockets and frame generation do not share one Python interpreter.

`EngineClient` represents the engine in the server's process; `__main__` is the engine's process.
"""
