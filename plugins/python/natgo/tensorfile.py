"""Safetensors files, mapped into memory: every tensor is a view of the mapping.

The format is https://github.com/huggingface/safetensors#format: the little-endian length of a JSON header in eight
bytes, the header, then the tensors' bytes. A batch's header is small and is checked in full before any tensor is
created.
"""

import mmap
import os
from typing import Any, Dict, List, NamedTuple, Tuple, Union

from natgo.errors import BatchError, missing
from natgo.runfiles import open_file, parse

_MAX_HEADER_BYTES = 16 << 20
_MAX_AXES = 8
Buffer = Union[mmap.mmap, bytearray]


class _Type(NamedTuple):
    size: int
    numpy: str
    code: str  # of a memoryview
    torch: str


_TYPES = {"I64": _Type(8, "<i8", "q", "int64"), "F32": _Type(4, "<f4", "f", "float32")}


def _array(kind: _Type, shape: List[int], data: Any) -> Any:
    """A numpy array, or, where numpy isn't installed, a memoryview of the same shape."""
    try:
        import numpy
    except ImportError:
        return data.cast(kind.code, shape) if all(shape) else data.cast(kind.code)  # a memoryview has no axis of length 0
    return numpy.frombuffer(data, kind.numpy).reshape(shape)


def as_torch(x: Any) -> Any:
    """A torch tensor over the memory of a value created by map_tensors."""
    try:
        import torch
    except ModuleNotFoundError:
        raise missing("torch=True", "torch", "numpy torch") from None
    if not isinstance(x, memoryview):
        return torch.from_numpy(x)
    kind = next(t for t in _TYPES.values() if t.code == x.format)
    dtype = getattr(torch, kind.torch)
    return torch.frombuffer(x.cast("B"), dtype=dtype).reshape(x.shape) if x.nbytes else torch.empty(0, dtype=dtype)


def map_tensors(path: str) -> Tuple[Dict[str, Any], mmap.mmap]:
    """The tensors of a file by name, and the mapping that they are views into.

    The mapping is private: writing to a tensor doesn't change the file or what others see of it.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise BatchError(f"{path}: is {size} bytes long, too short for a safetensors file")
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return read_tensors(path, mapping), mapping


def read_tensors(path: str, data: Buffer) -> Dict[str, Any]:
    """The tensors of a safetensors file in memory, as views of it; path names the file in errors."""
    size = len(data)
    if size < 8:
        raise BatchError(f"{path}: is {size} bytes long, too short for a safetensors file")
    length = int.from_bytes(data[:8], "little")
    if length > min(size - 8, _MAX_HEADER_BYTES):
        raise BatchError(f"{path}: has a header of {length} bytes in a file of {size}")
    try:
        header = parse(bytes(data[8 : 8 + length]))
    except ValueError as err:
        raise BatchError(f"{path}: has a header that is not JSON: {err}") from None
    if not isinstance(header, dict):
        raise BatchError(f"{path}: has a header that is not an object")
    start = 8 + length
    return {name: _view(path, data, start, name, entry) for name, entry in header.items() if name != "__metadata__"}


def _view(path: str, mapping: Buffer, start: int, name: str, entry: Any) -> Any:
    kind = _TYPES.get(str(entry.get("dtype"))) if isinstance(entry, dict) else None
    if kind is None:
        raise BatchError(f"{path}: tensor {name!r} is neither int64 nor float32")
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2 or len(shape) > _MAX_AXES:
        raise BatchError(f"{path}: tensor {name!r} has no valid shape and data_offsets")
    size = kind.size
    for n in shape:
        size *= n
    begin, end = offsets
    if end - begin != size or start + end > len(mapping) or (start + begin) % kind.size:
        raise BatchError(f"{path}: tensor {name!r} of shape {shape} does not fit bytes {begin} to {end}")
    try:
        return _array(kind, shape, memoryview(mapping)[start + begin : start + end])
    except (ValueError, OverflowError, TypeError):  # an axis of length 0 beside one that no array can have
        raise BatchError(f"{path}: tensor {name!r} has a shape that no array can have") from None


def _counts(x: Any) -> bool:
    return isinstance(x, list) and all(type(n) is int and n >= 0 for n in x)
