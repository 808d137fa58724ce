"""Errors in a run's files, and errors of the process that collates traces."""

from typing import Any, Dict, Type


class NatgoError(Exception):
    """The base class of all errors that natgo itself raises."""


class MissingPackageError(NatgoError, ImportError):
    """A package that natgo doesn't include is missing; the message contains the command that installs it."""


def missing(what: str, name: str, install: str = "") -> MissingPackageError:
    """The error that what, a function or module, needs the package `name`. install: the argument to pip, if it is more
    than the name."""
    return MissingPackageError(f"{what} needs the package {name}: pip install {install or name}", name=name)


class BatchError(NatgoError):
    """A batch file or the index is missing, damaged or in another format; the message says where."""


class MissingTensorError(BatchError, KeyError):
    """A batch doesn't have the requested tensor; the message lists the ones it has."""

    __str__ = Exception.__str__  # KeyError's quotes the message


class RowsError(NatgoError):
    """A run's rows are missing or damaged; the message names the file and the location."""


class TamperedError(BatchError, RowsError):
    """A file is not the one that the index or the manifest was written for: its hash differs."""


class CollatorError(NatgoError):
    """The base class of errors in collating traces; each subclass says what can be done about the call."""


class SettingsError(CollatorError):
    """The collator's settings are wrong; `where` names the setting. Every call fails until they are changed."""

    def __init__(self, message: str, where: str = ""):
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


class RequestError(CollatorError):
    """These traces can't be collated; the message says why. The next call is not affected.

    `code` is `bad_request`, `too_large` or `failed`; `where` is the location, such as `traces[3]`.
    """

    def __init__(self, message: str, code: str, where: str = ""):
        super().__init__(f"{where}: {message}" if where else message)
        self.code, self.where = code, where

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


class DeadlineError(CollatorError, TimeoutError):
    """The answer did not arrive in time. The process was stopped; the next call starts another."""


class ProcessError(CollatorError):
    """The process can't be started, or ended on every attempt; the message contains its last output."""


class DroppedError(CollatorError):
    """With `strict=True`, something was dropped from a batch. `dropped` holds the counts by reason."""

    def __init__(self, message: str, dropped: Dict[str, int]):
        super().__init__(message)
        self.dropped = dropped

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: Type[Exception], args: Any, state: Dict[str, Any]) -> Exception:
    """Restores a pickled error, whose args are not the arguments of its constructor."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
