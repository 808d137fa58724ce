"""A nat-go process that answers frames over pipes. It belongs to the process that started it, never to a forked child."""

import fcntl
import json
import os
import select
import struct
import subprocess
import tempfile
import threading
import time
import weakref
from typing import Any, Dict, List, Optional, Tuple

_MAX_HEAD_BYTES = 256 << 20
_PIPE_BYTES = 1 << 20  # what Linux allows everyone
_F_SETPIPE_SZ = 1031  # fcntl has its name from Python 3.10 on, and only on Linux
_SAID_BYTES = 2000  # of what the process says on standard error, kept for messages


class Ended(Exception):
    """The process has ended, or its output is invalid; the message says which."""


class Late(Exception):
    """The answer did not arrive in time."""


class Process:
    """One `nat-go collate` process. `ask` must not be called concurrently."""

    def __init__(self, program: str, max_answer: int):
        self._owner = os.getpid()
        self._max_answer = max_answer
        self._said = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                [program, "collate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, bufsize=0
            )
        except OSError as err:
            self._said.close()
            raise Ended(f"{program}: {err.strerror}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        for pipe in (self._in, self._out):
            _widen(pipe)
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        _all.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def mine(self) -> bool:
        """Whether this process started it: a forked child must not use its parent's."""
        return self._owner == os.getpid()

    def ask(self, frame: bytes, seconds: float) -> Tuple[Dict[str, Any], bytearray]:
        """Sends a frame and returns the head and body of the answer. After an error the process can no longer be used: `close` it."""
        until = time.monotonic() + seconds
        self._write(struct.pack("<I", len(frame)) + frame, until)
        head, body = struct.unpack("<IQ", self._read(12, until))
        if head > _MAX_HEAD_BYTES or body > self._max_answer:
            raise Ended(f"its answer has {head} + {body} bytes; the limit is {self._max_answer}")
        try:
            words = json.loads(self._read(head, until))
        except ValueError:
            raise Ended("its answer is not JSON") from None
        if not isinstance(words, dict):
            raise Ended("its answer is not an object")
        return words, self._read(body, until)

    def _write(self, data: bytes, until: float) -> None:
        rest = memoryview(data)
        while rest:
            self._wait(self._in, select.POLLOUT, until)
            try:
                rest = rest[os.write(self._in, rest) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Ended(self.last_words()) from None

    def _read(self, size: int, until: float) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            try:
                n = os.readv(self._out, [rest])
            except BlockingIOError:
                self._wait(self._out, select.POLLIN, until)
                continue
            if n == 0:
                raise Ended(self.last_words())
            rest = rest[n:]
        return data

    def _wait(self, fd: int, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise Late()

    def last_words(self) -> str:
        """How the process ended, and its last output."""
        try:
            code: Optional[int] = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = None
        end = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, end - _SAID_BYTES))
        said = self._said.read().decode(errors="replace").strip()
        how = "it closed its output" if code is None else f"it was killed by signal {-code}" if code < 0 else f"it ended with {code}"
        return f"{how}: {said}" if said else how

    def close(self) -> None:
        """Ends the process. In a forked child, only the child's copies of the pipes are closed."""
        _all.discard(self)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._said.close()
        if not self.mine:
            self._process.returncode = 0  # not a child of this process: there is nothing to wait for
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _widen(pipe: int) -> None:
    """Enlarges a pipe to hold most frames, so that neither side waits for the other in the middle of one."""
    try:
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # not Linux, or too many pipes of this user


_all: "weakref.WeakSet[Process]" = weakref.WeakSet()


def _forked() -> None:
    """Closes the parent's pipes in a forked child; otherwise the parent's processes would outlive the parent."""
    for process in list(_all):
        process.close()


os.register_at_fork(after_in_child=_forked)


class Supervised:
    """A process that is started on first use, in each process that needs it, and restarted if it has ended.

    `settings` is its first frame. The same frame always gets the same answer, so a call whose process ended is retried.
    """

    def __init__(self, program: str, settings: bytes, max_answer: int, start_seconds: float, retries: int):
        self._program, self._settings, self._max_answer = program, settings, max_answer
        self._start_seconds, self._retries = start_seconds, retries
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._process: Optional[Process] = None
        self.ready: Dict[str, Any] = {}
        """The process's answer to its settings."""
        self.starts = 0

    def ask(self, frame: bytes, seconds: float) -> Tuple[Dict[str, Any], bytearray]:
        """Raises `Ended` if every attempt ended early, `Late` if time runs out, `Refused` if the answer is an error."""
        if self._owner != os.getpid():  # a lock that another thread of the parent held would never be released
            self._owner, self._lock, self._process = os.getpid(), threading.Lock(), None
        with self._lock:
            tries: List[str] = []
            while True:
                try:
                    return _checked(*self._running().ask(frame, seconds))
                except Refused:
                    raise
                except Ended as err:
                    self._close()
                    tries.append(str(err))
                    if len(tries) > self._retries:
                        raise Ended(f"{self._program} ended on each of {len(tries)} tries; the last time: {tries[-1]}") from None
                except BaseException:  # time is up, or the caller was interrupted: half an answer may be on its way
                    self._close()
                    raise

    def _running(self) -> Process:
        if self._process is None:
            self._process = Process(self._program, self._max_answer)
            self.starts += 1
            try:
                self.ready = _checked(*self._process.ask(self._settings, self._start_seconds))[0].get("ready", {})
            except Refused as err:
                self._close()
                raise Refused({**err.error, "code": "bad_settings"}) from None
        return self._process

    @property
    def pid(self) -> Optional[int]:
        """The id of the process that runs for this one, or None."""
        return self._process.pid if self._process is not None and self._process.mine else None

    def _close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def close(self) -> None:
        with self._lock:
            self._close()


class Refused(Exception):
    """The answer is an error: code, message, where."""

    def __init__(self, error: Dict[str, Any]):
        super().__init__(error.get("message", ""))
        self.error = error


def _checked(head: Dict[str, Any], body: bytearray) -> Tuple[Dict[str, Any], bytearray]:
    if isinstance(head.get("error"), dict):
        raise Refused(head["error"])
    return head, body
