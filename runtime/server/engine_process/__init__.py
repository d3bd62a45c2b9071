"""Engine in a separate process, with its own Python interpreter.

Sockets and frame generation then do not wait for the same GIL. `EngineClient` represents the engine in the server's
process; `__main__` is the engine's process.
"""
