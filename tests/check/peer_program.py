"""A program that does what a file says: reads lines, writes lines, ends. The peers of the tests, good ones and bad."""

import base64
import json
import sys
import time


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        deeds = json.load(file)
    for what, value in deeds:
        if what == "read":
            sys.stdin.buffer.readline()
        elif what == "read all":
            while sys.stdin.buffer.read(65536):
                pass
        elif what == "write":
            sys.stdout.buffer.write(base64.b64decode(value))
            sys.stdout.buffer.flush()
        elif what == "hang":
            time.sleep(600)
        elif what == "exit":
            sys.exit(value)


main()
