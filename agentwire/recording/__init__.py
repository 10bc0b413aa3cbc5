"""Recordings: what crossed a wire, byte for byte, with the time of every line.

A recording is a file of JSON Lines. A header says which wire it is and who made it; every other line is an
:class:`Entry`: one line of the wire and who wrote it, or something that a replay needs beside (a model service's
reply, a tool's result). It is only ever appended to; a line that was torn by a crash is left out when it is read.
Plain logs of one wire (only what the agent wrote, a line as it is) are read as well.
"""

from __future__ import annotations

from agentwire.recording.entries import VERSION, Entry, Header, RecordingError, Who
from agentwire.recording.reader import Recording, entries_of, header_of, open_recording
from agentwire.recording.replies import Broke, Chunk, HttpReply
from agentwire.recording.writer import Recorder

__all__ = [
    "VERSION",
    "Broke",
    "Chunk",
    "Entry",
    "Header",
    "HttpReply",
    "Recorder",
    "Recording",
    "RecordingError",
    "Who",
    "entries_of",
    "header_of",
    "open_recording",
]
