"""Reports errors in a builder, with their location and a traceback of the builder's own frames."""

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
FIRST_LOOK = 1.0  # seconds without an item after which a builder's stack is logged; then after twice as long, and so on
HELD = 2.0  # seconds for which the watching thread may be kept from running before the alarm goes off


def log(level: str, message: str) -> None:
    """A line for nat-go's log."""
    with contextlib.suppress(OSError, ValueError):
        os.write(2, (json.dumps({"level": level, "message": message}) + "\n").encode())


def ours(path: str) -> bool:
    return os.path.dirname(os.path.abspath(path)) == HERE


def told(e: BaseException) -> tuple[str, str]:
    """An exception's message with its location, and its traceback without natgo's own frames."""
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
    """A traceback up to the first of natgo's own frames."""
    theirs = []
    while tb is not None and not ours(tb.tb_frame.f_code.co_filename):
        theirs.append(tb)
        tb = tb.tb_next
    out = None
    for tb in reversed(theirs):
        out = TracebackType(out, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return out


def at_yield(items: Any, e: Exception) -> NoReturn:
    """Raises an error in a builder's generator, at the yield of the wrong item, so that the traceback shows it."""
    throw = getattr(items, "throw", None)
    if throw is not None:
        throw(e)  # if the generator catches it and goes on, the group fails nonetheless
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
        log("warn", f"a builder went on after it was closed: {message}\n{stack}")


# --- builders that take long ---

class Watch:
    """Logs the location of builders that have yielded nothing for a while: nat-go shows a process's last lines if it
    has to stop it.

    While a builder is in C code that holds the interpreter, such as a regular expression that backtracks for ever, the
    watching thread can't run either, and doesn't postpone the alarm. The alarm's signal, which only building threads
    receive, then writes their stack without the interpreter."""

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
        """Makes the process log the location of builders that hold the interpreter. Call it before any other thread is
        started: threads inherit the blocked signals."""
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
                    log("debug", f"builder {builder} has yielded nothing for group {key!r} in {now - since:.0f} s; it is here:\n{stack_of(frame)}")


watch = Watch()


def stack_of(frame: FrameType) -> str:
    """A stack without natgo's own frames and the frames that called them."""
    frames = traceback.extract_stack(frame)
    last = max((i for i, f in enumerate(frames) if ours(f.filename)), default=-1)
    return "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames[last + 1:]))


# --- builders that fork, or print ---

forked = ""  # of a forked process: where it was forked


def _note_fork() -> None:
    global forked
    forked = stack_of(sys._getframe(1))


def not_a_child(pid: int) -> None:
    """Ends this process if it is a child that a builder forked and that continues as the builder."""
    if os.getpid() != pid:
        log("error", f"a builder forked, and its child (process {os.getpid()}) went on as the builder; it was ended. "
            f"A child has to end itself, with os._exit, or be started by subprocess or multiprocessing. Forked here:\n{forked}")
        os._exit(70)


class Printed(io.TextIOBase):
    """A plugin's standard output, which belongs to the protocol: anything printed goes to the log, the first time with
    its location."""

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
            log("warn", f"{frame.f_code.co_filename}:{frame.f_lineno} prints to standard output, which belongs to nat-go; the text goes to the log")
        return sys.stderr.write(text)


def redirect() -> int:
    """Reserves standard output for the handshake and returns its descriptor; later output goes to standard error."""
    sys.stdout.flush()
    handshake = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = Printed()
    os.register_at_fork(after_in_child=_note_fork)
    return handshake
