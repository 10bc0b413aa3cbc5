"""A peer that only writes: one line, given as the first argument, as many times as the second says."""

import os
import sys


def main() -> None:
    """Write all of it, once something comes on standard input."""
    line, count = sys.argv[1].encode() + b"\n", int(sys.argv[2])
    block = line * 512
    data = memoryview(block * (count // 512) + line * (count % 512))
    print("ready", file=sys.stderr, flush=True)
    os.read(0, 1)
    while data:
        data = data[os.write(1, data[: 1 << 18]) :]


if __name__ == "__main__":
    main()
