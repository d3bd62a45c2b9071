"""Speech engine, which builds prompts, generates codec frames and decodes them to audio.

Start reading at `Engine.tick` (engine.py), one iteration of the engine thread. Every loaded checkpoint has one
`EngineCore` (core.py). Every request has one `Sequence` (scheduling/sequence.py) until its final event.

* text: a request's text as segments and tokens
* scheduling: validation of requests, waiting queue, and the choice of the next frames and chunks
* execution: prompts, frames and slots on the device
* audio: Code2Wav, voice prompts, and detection of runaway speech
* loading: registry and loader of checkpoints
* capacity: estimates before a checkpoint is loaded

No other package uses the device.
"""
