"""Whose fault it is: what goes wrong in a builder, as a traceback of the builder's own frames and with its place."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
MOST = 64 << 10  # characters of a traceback
MOST_MESSAGE = 1000
FIRST_LOOK = 1.0  # seconds of silence after which it is noted where its builder is; then after twice as long, and so on
HELD = 2.0  # seconds without the interpreter after which that is noted where no Python can run


def log(level: str, message: str) -> None:
    """A line for nat-go's log."""
    with contextlib.suppress(OSError, ValueError):
        os.write(2, (json.dumps({"level": level, "message": message}) + "\n").encode())


def ours(path: str) -> bool:
    return os.path.dirname(os.path.abspath(path)) == HERE


def told(e: BaseException) -> tuple[str, str]:
    """What an exception says, with its place, and its traceback without the frames of natgo itself."""
    tb = e.__traceback__
    while tb is not None and ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    frames = traceback.extract_tb(tb)
    message = "".join(traceback.format_exception_only(type(e), e)).strip().replace("\n", " ")[:MOST_MESSAGE]
    theirs = [f for f in frames if not ours(f.filename)]
    if theirs:  # the place in the builder's own folder, not in a library that it calls
        at = [f for f in theirs if os.path.dirname(f.filename) == os.path.dirname(theirs[0].filename)][-1]
        message += f" ({at.filename}:{at.lineno} in {at.name})"
    stack = "".join(traceback.format_exception(type(e), e, _without_ours(tb)))
    return message, stack if len(stack) <= MOST else stack[:MOST // 2] + "\n...\n" + stack[-MOST // 2:]


def _without_ours(tb: TracebackType | None) -> TracebackType | None:
    """A traceback up to where natgo's own code goes on."""
    theirs = []
    while tb is not None and not ours(tb.tb_frame.f_code.co_filename):
        theirs.append(tb)
        tb = tb.tb_next
    out = None
    for tb in reversed(theirs):
        out = TracebackType(out, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return out


def at_yield(items: Any, e: Exception) -> NoReturn:
    """Raises an error in a builder's generator, where it yielded what is wrong, so that its traceback has the place."""
    throw = getattr(items, "throw", None)
    if throw is not None:
        throw(e)  # a generator that goes on after it fails nonetheless
    raise e


def closed(items: Any) -> None:
    """Closes a builder's generator."""
    close = getattr(items, "close", None)
    if close is None:
        return
    try:
        close()
    except BaseException as e:  # it yields after close, or raises
        message, stack = told(e)
        log("warn", f"a builder that was closed goes on: {message}\n{stack}")


# --- builders that take long ---

class Watch:
    """Notes where builders are that yield nothing for long: nat-go shows a process's last lines where it has to stop it.

    While a builder is in C code that keeps the interpreter to itself, such as a regular expression that backtracks for ever,
    the watching thread doesn't run either, and doesn't put off an alarm: then its signal, which only threads that build take,
    writes their stack without the interpreter."""

    def __init__(self) -> None:
        self.at: dict[int, tuple[str, str, float]] = {}  # by thread: builder, group, since when
        self.lock, self.running, self.alarmed = threading.Lock(), False, False

    @contextlib.contextmanager
    def over(self, builder: str, key: str) -> Iterator[None]:
        """Watches a piece of a builder's work."""
        thread = threading.get_ident()
        self.at[thread] = builder, key, time.monotonic()
        if not self.running:
            self.start()
        if self.alarmed:
            signal.setitimer(signal.ITIMER_REAL, HELD, 4 * HELD)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
        try:
            yield
        finally:
            if self.alarmed:
                signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM,))
            self.at.pop(thread, None)

    def alarm(self) -> None:
        """Has the process note where builders are that keep the interpreter. It is called before there are other threads, which
        inherit what is blocked."""
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM,))
        faulthandler.register(signal.SIGALRM, file=2, all_threads=False)
        self.alarmed = True

    def start(self) -> None:
        with self.lock:
            if not self.running:
                self.running = True
                threading.Thread(target=self.look, daemon=True, name="nat-go watch").start()

    def look(self) -> None:
        looked: dict[tuple[int, float], float] = {}  # when a piece of work is looked at again
        while True:
            time.sleep(FIRST_LOOK / 4)
            now, at = time.monotonic(), dict(self.at)
            if self.alarmed:
                signal.setitimer(signal.ITIMER_REAL, HELD if at else 0, 4 * HELD)
            looked = {k: v for k, v in looked.items() if k[0] in at and at[k[0]][2] == k[1]}
            for thread, (builder, key, since) in at.items():
                if now - since < looked.get((thread, since), FIRST_LOOK):
                    continue
                looked[thread, since] = 2 * (now - since)
                frame = sys._current_frames().get(thread)
                if frame is not None:
                    log("debug", f"builder {builder} has yielded nothing of group {key!r} for {now - since:.0f} s; it is here:\n{stack_of(frame)}")


watch = Watch()


def stack_of(frame: FrameType) -> str:
    """A stack without the frames of natgo itself and those outside of it."""
    frames = traceback.extract_stack(frame)
    last = max((i for i, f in enumerate(frames) if ours(f.filename)), default=-1)
    return "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames[last + 1:]))


# --- builders that fork, or print ---

forked = ""  # of a forked process: where it was forked


def _note_fork() -> None:
    global forked
    forked = stack_of(sys._getframe(1))


def not_a_child(pid: int) -> None:
    """Ends a process that a builder forked, and that goes on as the builder."""
    if os.getpid() != pid:
        log("error", f"a builder forked, and its child (process {os.getpid()}) went on as the builder; it was ended. "
            f"A child ends itself: os._exit, or subprocess and multiprocessing, which do so. Forked here:\n{forked}")
        os._exit(70)


class Printed(io.TextIOBase):
    """Standard output of a plugin, which is the protocol's: what is printed goes to the log, the first time with its place."""

    def __init__(self) -> None:
        self.told = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def flush(self) -> None:
        sys.stderr.flush()

    def write(self, text: str) -> int:
        if not self.told:
            self.told = True
            frame = sys._getframe(1)
            log("warn", f"{frame.f_code.co_filename}:{frame.f_lineno} prints to standard output, which is not a builder's; it goes to the log")
        return sys.stderr.write(text)


def redirect() -> int:
    """Keeps standard output for the handshake, whose descriptor is returned; what is printed from now on goes to standard error."""
    sys.stdout.flush()
    handshake = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = Printed()
    os.register_at_fork(after_in_child=_note_fork)
    return handshake
