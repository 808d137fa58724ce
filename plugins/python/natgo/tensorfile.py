"""Safetensors files, mapped into memory: every tensor is a view of the mapping.

The format is https://github.com/huggingface/safetensors#format: eight bytes little-endian length of a JSON header, the header,
then the tensors' bytes. The header of a batch is small and is checked in full before any tensor is made.
"""

import json
import mmap
import os
from typing import Any, Dict, Tuple

import numpy as np

from natgo.errors import BatchError

_TYPES: "Dict[str, np.dtype[Any]]" = {"I64": np.dtype("<i8"), "F32": np.dtype("<f4")}
_MAX_HEADER_BYTES = 16 << 20


def map_tensors(path: str) -> Tuple["Dict[str, np.ndarray[Any, Any]]", mmap.mmap]:
    """The tensors of a file by name, and the mapping that they are views of.

    The mapping is private: writing to a tensor changes neither the file nor what others see of it.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise BatchError(f"{path}: is {size} bytes long, too short for a safetensors file")
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    length = int.from_bytes(mapping[:8], "little")
    if length > min(size - 8, _MAX_HEADER_BYTES):
        raise BatchError(f"{path}: has a header of {length} bytes in a file of {size}")
    try:
        header = json.loads(mapping[8 : 8 + length])
    except ValueError as err:
        raise BatchError(f"{path}: has a header that is not JSON: {err}") from None
    if not isinstance(header, dict):
        raise BatchError(f"{path}: has a header that is not an object")
    start = 8 + length
    tensors = {name: _view(path, mapping, start, name, entry) for name, entry in header.items() if name != "__metadata__"}
    return tensors, mapping


def _view(path: str, mapping: mmap.mmap, start: int, name: str, entry: Any) -> "np.ndarray[Any, Any]":
    if not isinstance(entry, dict) or entry.get("dtype") not in _TYPES:
        raise BatchError(f"{path}: tensor {name!r} is neither int64 nor float32")
    dtype = _TYPES[entry["dtype"]]
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise BatchError(f"{path}: tensor {name!r} has no valid shape and data_offsets")
    elements = 1
    for n in shape:
        elements *= n
    begin, end = offsets
    if end - begin != elements * dtype.itemsize or start + end > len(mapping) or (start + begin) % dtype.itemsize:
        raise BatchError(f"{path}: tensor {name!r} of shape {shape} does not fit bytes {begin} to {end}")
    return np.frombuffer(mapping, dtype, count=elements, offset=start + begin).reshape(shape)


def _counts(x: Any) -> bool:
    return isinstance(x, list) and all(type(n) is int and n >= 0 for n in x)
