"""Client of ``voicewright.speech.v1``: several concurrent utterances over one WebSocket.

::

    async with connect("http://localhost:8210") as client:
        async with client.speak("The kettle is on.", voice="clara") as speech:
            async for chunk in speech:
                play(chunk.pcm)

**Memory is bounded.** Each utterance has at most ``MAX_WAITING`` unread chunks. If an utterance has reached this
number, the client stops reading the socket. This blocks all utterances until a chunk is read. The runtime then stops
generating audio, and disconnects the client after half a minute. Therefore, read or cancel every utterance that you
start. Leaving the ``async with`` block of an utterance also cancels it.

There are two main errors. `SpeechRefused` means that the runtime has refused a request, and has an error code.
`ConnectionLost` means that all running utterances have ended, and that you have to connect again.

`voicewright.sync` is a client without an event loop. docs/quickstart.md has examples.
"""

from voicewright.client import Client, connect
from voicewright.errors import ConnectionLost, SpeechRefused, SpeechTimeout, VoicewrightError
from voicewright.sound import wav
from voicewright.speech import MAX_WAITING, Speech
from voicewright.sync import say
from voicewright.values import Cancelled, Chunk, Config, Done, End, Queued, Start, Stats, Turn
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
    "Turn",
    "VoicewrightError",
    "connect",
    "say",
    "wav",
]
