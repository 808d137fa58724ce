"""Training data made by nat-go, as tensors and as rows.

    import natgo

    for batch in natgo.load("out/first", channel="dpo"):
        batch["chosen_input_ids"]  # int64 [R, T], mapped from the file, not copied

Importing it needs no other package: numpy, torch and datasets are imported only where they are used. `natgo.trl` has
TRL's trainers with nat-go's own ids and masks.
"""

from typing import Any

from natgo import loss
from natgo.batches import Batch, BatchSet, Stream, load
from natgo.collator import Collated, Collator
from natgo.errors import (
    BatchError,
    CollatorError,
    DeadlineError,
    DroppedError,
    MissingPackageError,
    NatgoError,
    ProcessError,
    RequestError,
    RowsError,
    SettingsError,
    TamperedError,
)
from natgo.textrows import rows

__all__ = [
    "Batch",
    "BatchError",
    "BatchSet",
    "Collated",
    "Collator",
    "CollatorError",
    "DeadlineError",
    "DroppedError",
    "MissingPackageError",
    "NatgoError",
    "ProcessError",
    "RequestError",
    "RowsError",
    "SettingsError",
    "Stream",
    "TamperedError",
    "load",
    "loss",
    "rows",
]


def __getattr__(name: str) -> Any:
    """`__version__`: the installed wheel's, or 0.0.0.dev0 in a checkout."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata  # slow to import, and rarely asked for

    try:
        return metadata.version("nat-go")
    except metadata.PackageNotFoundError:
        return "0.0.0.dev0"
