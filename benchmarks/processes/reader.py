"""A host that only reads: lines from standard input, a report on standard output when they end.

Says ``ready`` first. The report is how many lines came; with ``times`` as argument, then one line for each, the
nanoseconds on the system's monotonic clock at which the read that brought it returned.
"""

import os
import sys
import time


def main() -> None:
    """Read to the end."""
    keep_times = sys.argv[1:] == ["times"]
    print("ready", flush=True)
    count = 0
    times: list[int] = []
    while chunk := os.read(0, 1 << 18):
        now = time.monotonic_ns()
        lines = chunk.count(b"\n")
        count += lines
        if keep_times:
            times += [now] * lines
    print(count, *times, sep="\n", flush=True)


if __name__ == "__main__":
    main()
