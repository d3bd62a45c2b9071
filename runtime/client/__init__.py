"""A client of ``voicewright.speech.v1``: several utterances at once over one WebSocket, heard as they are made.

::

    async with connect("http://localhost:8210") as client:
        speech = await client.speak("The kettle is on.", voice="clara")
        async for chunk in speech:
            play(chunk.pcm)

**Memory is bounded.** Each utterance holds at most ``MAX_WAITING`` chunks that nobody has read. Then nothing more is
read from the socket, for any utterance on it, until one is taken; the runtime pauses the rows, and drops a client that
takes nothing for half a minute. So read every utterance that you start, or cancel it: ``async with await
client.speak(…) as speech`` cancels where the block is left early.

A lost connection ends what was in flight with `ConnectionLost` and is not restored: connect again. More by example in
docs/clients.md. Threads: one event loop; `say` makes its own.
"""

from runtime.client.session import Client, connect, say, wav
from runtime.client.speech import MAX_WAITING, Speech
from runtime.client.values import Cancelled, Chunk, Config, ConnectionLost, Done, End, SpeechRefused, Start

__all__ = [
    "MAX_WAITING",
    "Cancelled",
    "Chunk",
    "Client",
    "Config",
    "ConnectionLost",
    "Done",
    "End",
    "Speech",
    "SpeechRefused",
    "Start",
    "connect",
    "say",
    "wav",
]
