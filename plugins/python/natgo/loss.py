"""Checks a training script's loss from within the script, comparing its own terms with exact ones, token by token; and
provides the exact divergence to train with."""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from natgo.errors import NatgoError, missing

MAX_ROWS = 64
_NUMPY = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32"}
_SHARED = "/dev/shm"


class CheckError(NatgoError):
    """The check can't be made: a tensor is missing or has the wrong shape, or nat-go failed; the message says which."""


@dataclass(frozen=True)
class Difference:
    """A term whose value in the script differs from ours."""

    term: str
    row: int
    """Row in the batch, from 0; -1: the batch as a whole."""
    token: int
    """Position of the token in the row; -1: the row as a whole."""
    id: int
    yours: Optional[float]
    """None if it is not finite, like `ours`."""
    ours: Optional[float]
    why: str
    pair: Optional[int] = None
    """For sdpo, the pair's index in the pair table."""

    def __str__(self) -> str:
        token = f", token {self.token} (id {self.id})" if self.token >= 0 else ""
        row = f"row {self.row}{token}: " if self.row >= 0 else ""
        return f"{self.term}: {row}{self.why}: yours {_number(self.yours)}, ours {_number(self.ours)}"


@dataclass(frozen=True)
class Report:
    """A check's result; `print` shows it in words."""

    channel: str
    compared: List[str]
    """The given terms that were compared."""
    entries: int
    differ: int
    """How many of these entries differ."""
    differences: List[Difference]
    """The first differing entries, in order."""
    causes: List[str]
    """For a term, the single mistake that would explain all its differences, if any."""
    loss: Optional[float]
    """Our loss, reduced over the batch."""
    warnings: List[str] = field(default_factory=list)
    """Other remarks, such as rows of logits that took the kernels' slow path."""
    ok: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", self.differ == 0)

    def __str__(self) -> str:
        what = f"{self.channel}: {', '.join(self.compared)}"
        if self.ok:
            return "\n  ".join([f"{what}: all {self.entries} entries agree", *self.warnings])
        lines = [f"{what}: {self.differ} of {self.entries} entries differ", *self.causes, *self.warnings, *map(str, self.differences)]
        left = self.differ - len(self.differences)
        return "\n  ".join(lines + ([f"and {left} more"] if left else []))


def check(
    batch: Mapping[str, Any],
    logits: Any,
    terms: Mapping[str, Any],
    *,
    tolerance: float = 1e-3,
    timeout: float = 300.0,
    program: Optional[Union[str, "os.PathLike[str]"]] = None,
    **options: Union[float, str],
) -> Report:
    """Compares a script's own loss terms with exact ones for the same logits.

    batch: one channel's tensors under nat-go's names, from `natgo.load` or `Collator(...)(traces).channel(name)`;
        at most 64 rows.
    logits: the model's, not shifted: `[R, T, V]` for sft and rl; for dpo `{"chosen_logits", "rejected_logits"}`,
        with `ref_chosen_logps` and `ref_rejected_logps` `[R]` if the batch lacks them; for sdpo `{"student_logits",
        "teacher_logits"}`, `[R, T, V]`, or `[P, V]` at the pairs. Torch tensors or numpy arrays; bfloat16, float16 or float32.
    terms: any that the script computed: `token_losses` `[R, T]` (sft, rl: each token's part before weights, 0 where nothing is
        trained), `chosen_logps` and `rejected_logps` `[R, T]` (dpo: log p of each trained token), `pair_losses` `[R]` or `[P]` (dpo,
        sdpo), and `loss` (the whole, reduced). `[R, T - 1]` means `[R, T]` without its first column.
    options: settings for the loss, as in `nat-go loss check`: `dpo_beta=0.1`, `jsd_beta=0.5`, `temperature=1`,
        `clip_epsilon=0.2`, ...

    The tensors are passed in files, in shared memory if there is room, otherwise in the system's temporary folder;
    the files are removed afterwards.
    """
    batch = {name: x for name, x in batch.items() if hasattr(x, "shape")}
    rows = max((x.shape[0] for name, x in batch.items() if name.endswith("input_ids")), default=0)
    students = batch.get("student_input_ids")
    rows = students.shape[0] if students is not None else rows
    if rows > MAX_ROWS:
        raise ValueError(f"the batch has {rows} rows: a check takes at most {MAX_ROWS}")
    given = dict(logits) if isinstance(logits, Mapping) else {"logits": logits}
    given.update({f"yours.{name}": x for name, x in terms.items()})
    files = {"batch": _Tensors(batch), "logits": _Tensors(given)}
    size = sum(file.size for file in files.values())
    with tempfile.TemporaryDirectory(prefix="natgo-check-", dir=_room(size)) as folder:
        command = [_program(program), "loss", "check", "--tolerance", repr(tolerance)]
        for name, file in files.items():
            path = os.path.join(folder, name)
            file.write(path)
            command += [f"--{name}", path]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise CheckError(f"nat-go has not answered within {timeout:g} s") from None
        except OSError as err:
            raise CheckError(f"{command[0]}: {err.strerror}") from None
        said = done.stderr.decode(errors="replace").strip().replace(f"{folder}{os.sep}", "")
    if done.returncode != 0:
        raise CheckError(said or f"nat-go ended with {done.returncode}")
    found = json.loads(done.stdout)
    found["differences"] = [Difference(**d) for d in found["differences"]]
    return Report(**found)


def jsd(student: Any, teacher: Any, *, beta: float = 0.5, temperature: float = 1.0, normalize: bool = False, clip: float = 0.0) -> Any:
    """The generalised JSD at each row of two tensors of logits [N, V], as [N] in nats, with a gradient for the student.

    It is beta KL(p||M) + (1 - beta) KL(q||M), q the student, p the teacher, M = (1 - beta) q + beta p; 0 is KL(p||q), 1
    KL(q||p). temperature divides both sides' logits; clip, above 0, is the upper limit of a row; normalize divides by
    beta (1 - beta). On the CPU the wheel's kernels compute it, on `torch.get_num_threads()` threads; elsewhere, in
    float64, and in a process forked after they were loaded, torch does.
    """
    from natgo.trl.divergence import JSD

    return JSD.apply(student, teacher, beta, temperature, normalize, clip)  # type: ignore[no-untyped-call]


def _program(program: Optional[Union[str, "os.PathLike[str]"]]) -> str:
    if program is not None:
        return os.fspath(program)
    from natgo.__main__ import find

    try:
        return find()
    except FileNotFoundError as err:
        raise CheckError(str(err)) from None


def _room(size: int) -> Optional[str]:
    """The shared memory folder if it has room for `size` bytes; None: the system's temporary folder."""
    try:
        stat = os.statvfs(_SHARED)
    except OSError:
        return None
    return _SHARED if os.access(_SHARED, os.W_OK) and stat.f_bavail * stat.f_frsize > size + (64 << 20) else None


class _Tensors:
    """A safetensors file yet to be written: nothing is copied until then."""

    def __init__(self, tensors: Mapping[str, Any]):
        self._data: List[Any] = []
        header: Dict[str, Any] = {}
        self.size = 0
        for name, x in sorted(tensors.items()):
            kind, shape, data = _bytes(name, x)
            self._data.append(data)
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [self.size, self.size + data.nbytes]}
            self.size += data.nbytes
        self._header = json.dumps(header).encode()
        self._header += b" " * (-len(self._header) % 8)

    def write(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(len(self._header).to_bytes(8, "little") + self._header)
            for data in self._data:
                file.write(data)


def _bytes(name: str, x: Any) -> Tuple[str, List[int], Any]:
    """Type, shape and memory of an array, a tensor or a number."""
    try:
        import numpy
    except ModuleNotFoundError:
        raise missing("natgo.loss", "numpy") from None
    kind = None
    if hasattr(x, "detach"):  # of torch
        x = x.detach().cpu().contiguous()
        if str(x.dtype) == "torch.bfloat16":
            import torch

            kind, x = "BF16", x.view(torch.int16)
        x = x.numpy()
    x = numpy.asarray(x)
    shape = list(x.shape)
    if kind is None:
        if x.dtype.name not in _NUMPY:
            raise CheckError(f"{name} holds {x.dtype}: want float32, float16, bfloat16 or int64")
        kind = _NUMPY[x.dtype.name]
    return kind, shape, numpy.ascontiguousarray(x).reshape(-1).view("u1").data


def _number(x: Optional[float]) -> str:
    return "not finite" if x is None else f"{x:.6g}"
