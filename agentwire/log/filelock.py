"""The lock on a journal: exclusive, never waited for, and gone with its owner however that dies."""

from __future__ import annotations

import os
import sys

_LOCKED_BYTE = 1 << 30  # on Windows, where a locked byte cannot be read either: one that no journal reaches


def try_lock(fd: int) -> bool:
    """Lock the open file for this process; False if somebody has it. Closing ``fd`` unlocks.

    Two descriptors of one process exclude each other too. Raises :class:`OSError` where the file system cannot lock.
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    """Give up the lock but keep the file open."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)


def owner(fd: int) -> int:
    """Give the process id of who has the file locked, where the system tells (Linux); else 0."""
    try:
        with open("/proc/locks", encoding="ascii") as file:
            lines = file.read().splitlines()
        inode = str(os.fstat(fd).st_ino)
    except (OSError, ValueError):
        return 0
    # "1: FLOCK  ADVISORY  WRITE 4711 fd:01:131075 0 EOF"; a waiting lock has "->" as its second word.
    found = set()
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[3] == "WRITE" and words[5].rsplit(":", 1)[-1] == inode:
            found.add(words[4])
    if len(found) != 1:  # nobody any more, or equal inode numbers on two file systems
        return 0
    pid = found.pop()
    return int(pid) if pid.isdecimal() else 0
