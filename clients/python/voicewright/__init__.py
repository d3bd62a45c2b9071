"""Client of ``voicewright.speech.v1``: several utterances at once over one WebSocket.

::

    async with connect("http://localhost:8210") as client:
        async with client.speak("The kettle is on.", voice="clara") as speech:
            async for chunk in speech:
                play(chunk.pcm)

**Memory is bounded.** Each utterance holds at most ``MAX_WAITING`` chunks that were not read. Then nothing more is
read from the socket, for any utterance on it, until one is taken; the runtime pauses the rows, and drops a client that
takes nothing for half a minute. So read every utterance that you start, or cancel it, as the end of its block does.

Errors are of two kinds: `SpeechRefused`, the runtime's no with its code, and `ConnectionLost`, which ends what was in
flight; connect again. `voicewright.sync` is the same without an event loop. More by example in docs/quickstart.md.
"""

from voicewright.client import Client, connect
from voicewright.errors import ConnectionLost, SpeechRefused, SpeechTimeout, VoicewrightError
from voicewright.sound import wav
from voicewright.speech import MAX_WAITING, Speech
from voicewright.sync import say
from voicewright.values import Cancelled, Chunk, Config, Done, End, Queued, Start, Stats
from voicewright.wire import PROTOCOL, SAMPLE_RATE

__all__ = [
    "MAX_WAITING",
    "PROTOCOL",
    "SAMPLE_RATE",
    "Cancelled",
    "Chunk",
    "Client",
    "Config",
    "ConnectionLost",
    "Done",
    "End",
    "Queued",
    "Speech",
    "SpeechRefused",
    "SpeechTimeout",
    "Start",
    "Stats",
    "VoicewrightError",
    "connect",
    "say",
    "wav",
]
