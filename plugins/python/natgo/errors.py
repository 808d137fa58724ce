"""What goes wrong with a run's files."""


class NatgoError(Exception):
    """The base of every error that natgo raises itself."""


class BatchError(NatgoError):
    """A batch file or the index is missing, damaged or not of the format; the message names file and place."""


class TamperedError(BatchError):
    """A file is not the one that the index was written for: its hash differs."""
