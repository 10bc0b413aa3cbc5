"""A program that does what a file says: reads lines, writes lines, ends. The peers of the tests, good ones and bad."""

import base64
import json
import signal
import sys
import time


def main() -> None:
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        deeds = json.load(file)
    if ["signal", None] in deeds:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for number, (what, value) in enumerate(deeds, 1):
        if deeds[number : number + 1] == [["again", "killed"]]:
            leave(path, deeds[number + 1 :])  # before the line after which it is killed
        if what == "read":
            sys.stdin.buffer.readline()
        elif what == "read all":
            while sys.stdin.buffer.read(65536):
                pass
        elif what == "write":
            sys.stdout.buffer.write(base64.b64decode(value))
            sys.stdout.buffer.flush()
        elif what == "again" and value is None:
            leave(path, deeds[number:])
            sys.exit(0)
        elif what == "signal":
            signal.sigwait({signal.SIGTERM})
        elif what in ("hang", "again"):
            time.sleep(600)
        elif what == "exit":
            sys.exit(value)


def leave(path: str, deeds: list[object]) -> None:
    """What is left is for the next process."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(deeds, file)


main()
