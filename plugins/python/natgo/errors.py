"""What goes wrong with a run's files, and with the process that collates traces."""

from typing import Any, Dict, Type


class NatgoError(Exception):
    """The base of every error that natgo raises itself."""


class BatchError(NatgoError):
    """A batch file or the index is missing, damaged or not of the format; the message names file and place."""


class RowsError(NatgoError):
    """A run has no such rows, or they are damaged; the message names file and place."""


class TamperedError(BatchError, RowsError):
    """A file is not the one that the index or the manifest was written for: its hash differs."""


class CollatorError(NatgoError):
    """The base of what goes wrong when traces are collated; each subclass says what to do with the call."""


class SettingsError(CollatorError):
    """The collator's settings are wrong; `where` is the setting. Every call fails until it is made with others."""

    def __init__(self, message: str, where: str = ""):
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


class RequestError(CollatorError):
    """These traces can't be collated, as the message says; the next call is not affected.

    `code` is `bad_request`, `too_large` or `failed`; `where` is the place, such as `traces[3]`.
    """

    def __init__(self, message: str, code: str, where: str = ""):
        super().__init__(f"{where}: {message}" if where else message)
        self.code, self.where = code, where

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


class DeadlineError(CollatorError, TimeoutError):
    """There was no answer in time. The process was ended; the next call starts another."""


class ProcessError(CollatorError):
    """The process can't be started, or ended on each try; the message has what it said."""


class DroppedError(CollatorError):
    """With `strict=True`: something was left out of a batch. `dropped` is how often for which reason."""

    def __init__(self, message: str, dropped: Dict[str, int]):
        super().__init__(message)
        self.dropped = dropped

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: Type[Exception], args: Any, state: Dict[str, Any]) -> Exception:
    """An error that came from another process: its arguments are not those of its class."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
