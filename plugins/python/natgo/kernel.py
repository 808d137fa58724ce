"""nat-go's kernels in the same process as torch: the wheel's library, which is loaded on the first call."""

import ctypes
import os
import warnings
from typing import Any, Optional, Tuple

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libnatgo.so")
_DTYPES = {"torch.float32": 0, "torch.bfloat16": 1, "torch.float16": 2}
_loaded: Optional[Tuple[Any, int]] = None
"""The library, or None if it isn't available, and the process that loaded it."""


class _Call(ctypes.Structure):
    """cmd/libnatgo's natgo_call."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("student", "teacher")),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "student_stride", "teacher_stride", "dtype")),
        *((name, ctypes.c_double) for name in ("beta", "temperature", "clip")),
        *((name, ctypes.c_int64) for name in ("normalize", "workers")),
        *((name, ctypes.c_void_p) for name in ("loss", "grad", "message")),
        ("room", ctypes.c_int64),
    ]


def _library() -> Any:
    global _loaded
    if _loaded is None:
        try:
            _loaded = ctypes.CDLL(LIBRARY), os.getpid()
        except OSError:
            _loaded = None, os.getpid()
    if _loaded[0] is not None and _loaded[1] != os.getpid():
        warnings.warn("nat-go's kernels can't run in a process forked after they ran: torch computes the divergence", RuntimeWarning, stacklevel=2)
        _loaded = None, os.getpid()
    return _loaded[0]


def jsd(student: Any, teacher: Any, beta: float, temperature: float, normalize: bool, clip: float, gradient: bool) -> Optional[Tuple[Any, Any]]:
    """Returns [N], the divergence at each row of logits [N,V], and its gradient [N,V] or None, in float32; returns None
    if the kernels can't be used.

    They can be used for tensors on the CPU in float32, bfloat16 or float16, with a library, in the process that loaded
    it.
    """
    import torch

    if student.dim() != 2 or student.shape != teacher.shape:  # the library reads as many of the teacher's as of the student's
        raise ValueError(f"expected two tensors of logits [N, V], got {list(student.shape)} and {list(teacher.shape)}")
    if student.dtype != teacher.dtype:
        student, teacher = (x.to(torch.promote_types(student.dtype, teacher.dtype)) for x in (student, teacher))
    kind = _DTYPES.get(str(student.dtype))
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)()  # torch 1 has no compiler
    if kind is None or not student.numel() or {student.device.type, teacher.device.type} != {"cpu"} or compiling:
        return None
    library = _library()
    if library is None:
        return None
    student, teacher = (x if x.stride(1) == 1 and x.stride(0) >= x.shape[1] else x.contiguous() for x in (student.detach(), teacher.detach()))
    loss = torch.empty(len(student), dtype=torch.float64)
    grad = torch.empty(student.shape, dtype=torch.float32) if gradient else None
    message = ctypes.create_string_buffer(1024)
    call = _Call(
        student.data_ptr(), teacher.data_ptr(), *student.shape, student.stride(0), teacher.stride(0), kind, beta, temperature, clip, normalize,
        torch.get_num_threads(), loss.data_ptr(), None if grad is None else grad.data_ptr(), ctypes.addressof(message), len(message),
    )
    if library.natgo_jsd(ctypes.byref(call)):
        raise ValueError(message.value.decode(errors="replace"))
    return loss.float(), grad
