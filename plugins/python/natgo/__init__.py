"""Training data made by nat-go, as tensors.

    import natgo

    for batch in natgo.load("out/first", channel="dpo"):
        batch["chosen_input_ids"]  # int64 [R, T], mapped from the file, not copied

Needs numpy; torch is imported only when tensors are asked for.
"""

from natgo.batches import Batch, BatchSet, Stream, load
from natgo.errors import BatchError, NatgoError, TamperedError

__all__ = ["Batch", "BatchError", "BatchSet", "NatgoError", "Stream", "TamperedError", "load"]
