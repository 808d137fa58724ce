"""What goes wrong with a run's files."""


class NatgoError(Exception):
    """The base of every error that natgo raises itself."""


class BatchError(NatgoError):
    """A batch file or the index is missing, damaged or not of the format; the message names file and place."""


class RowsError(NatgoError):
    """A run has no such rows, or they are damaged; the message names file and place."""


class TamperedError(BatchError, RowsError):
    """A file is not the one that the index or the manifest was written for: its hash differs."""
