"""Training data made by nat-go, as tensors and as rows.

    import natgo

    for batch in natgo.load("out/first", channel="dpo"):
        batch["chosen_input_ids"]  # int64 [R, T], mapped from the file, not copied

Needs nothing to be imported: numpy, torch and datasets are imported where they are asked for. `natgo.trl` has TRL's trainers with
nat-go's own ids and masks.
"""

from natgo.batches import Batch, BatchSet, Stream, load
from natgo.errors import BatchError, NatgoError, RowsError, TamperedError
from natgo.textrows import rows

__all__ = ["Batch", "BatchError", "BatchSet", "NatgoError", "RowsError", "Stream", "TamperedError", "load", "rows"]
