"""A run's token batches: random access, ranks, and a stream that can be stopped and resumed."""

import hashlib
import json
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union, overload

from natgo.errors import BatchError, MissingTensorError, TamperedError
from natgo.runfiles import numbered_lines, open_file, parse
from natgo.tensorfile import as_torch, map_tensors

Path = Union[str, "os.PathLike[str]"]
CHANNELS = ("sft", "dpo", "rl", "sdpo")
_SPLITS = ("train", "validation")


class Batch(Mapping[str, Any]):
    """One batch: tensors under the format's names, and the batch's index line.

    Shapes: `[R, T]` for a side's ids, masks, labels and log-probs, `[R]` for columns with one value per row, `[P]` for
    the pair table of `sdpo`. Every value is a numpy array that views the mapped file, or a torch tensor over the same
    memory; where numpy isn't installed it is a memoryview.
    """

    def __init__(self, tensors: Mapping[str, Any], line: Dict[str, Any]):
        self._tensors = tensors
        self.line = line
        """The batch's line in `batches/index.jsonl`: rows, tokens, sites, proofs."""

    def __getitem__(self, name: str) -> Any:
        try:
            return self._tensors[name]
        except KeyError:
            raise MissingTensorError(f"{self.line.get('file', 'the batch')}: has no tensor {name!r}; it has {', '.join(self._tensors)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in self._tensors.items())
        return f"Batch({self.channel}/{self.split}: {shapes})"

    @property
    def channel(self) -> str:
        return str(self.line["channel"])

    @property
    def split(self) -> str:
        return str(self.line["split"])

    def torch(self) -> "Batch":
        """The same batch as torch tensors, which share the mapped memory."""
        return Batch({name: as_torch(x) for name, x in self._tensors.items()}, self.line)


class _Lines(Sequence[Dict[str, Any]]):
    """The index lines for a channel and a split. Only their location is pickled: another process rereads them."""

    def __init__(self, root: str, channel: str, split: str, sum: str, lines: Optional[List[Dict[str, Any]]] = None):
        self._root, self._channel, self._split, self._sum, self._lines = root, channel, split, sum, lines

    @overload
    def __getitem__(self, at: int) -> Dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> List[Dict[str, Any]]: ...
    def __getitem__(self, at: Union[int, slice]) -> Union[Dict[str, Any], List[Dict[str, Any]]]:
        return self._read()[at]

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> List[Dict[str, Any]]:
        if self._lines is None:
            lines, sum = _index(self._root)
            if sum != self._sum:
                raise BatchError(f"{self._root}: the index was written anew after these batches were loaded: load them again")
            self._lines = _chosen(lines, self._channel, self._split)
        return self._lines

    def __reduce__(self) -> Any:
        return _Lines, (self._root, self._channel, self._split, self._sum)


class BatchSet(Sequence[Batch]):
    """The batches of one channel and split, in index order or an epoch's order. Created by `load`.

    It can be pickled for worker processes: as its folder, settings and order, without the contents of the index.
    """

    def __init__(self, root: str, lines: Sequence[Dict[str, Any]], order: Sequence[int], torch: bool, verify: bool):
        self._root, self._lines, self._order, self._torch, self._verify = root, lines, order, torch, verify
        self._verified: Dict[str, Tuple[int, int]] = {}  # file -> (size, mtime_ns) of what was hashed

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> Batch: ...
    @overload
    def __getitem__(self, at: slice) -> "BatchSet": ...
    def __getitem__(self, at: Union[int, slice]) -> Union[Batch, "BatchSet"]:
        if isinstance(at, slice):
            return self._reordered(self._order[at])
        line = self._lines[self._order[at]]
        path = os.path.join(self._root, line["file"])
        if self._verify:
            self._check(path, line)
        try:
            tensors, _ = map_tensors(path)
        except OSError as err:
            raise BatchError(f"{path}: {err.strerror}; the index lists it") from None
        batch = Batch(tensors, line)
        return batch.torch() if self._torch else batch

    def rank(self, rank: int, world: int) -> "BatchSet":
        """The batches that one of `world` processes trains on: every `world`-th, starting with number `rank` (counted from 0).

        Interleaved, the ranks' batches are exactly this set. If its length is not a multiple of `world`, the last ranks
        have one batch fewer; if every rank needs the same number, shorten the set first: `s[: len(s) // world *
        world]`.
        """
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} is not one of {world}, counted from 0")
        return self._reordered(self._order[rank::world])

    def epoch(self, epoch: int) -> "BatchSet":
        """The same batches in an epoch's order, which depends only on its number; epoch 0 is the index order."""
        if epoch == 0:
            return self._reordered(self._order if isinstance(self._order, range) else sorted(self._order))
        return self._reordered(sorted(self._order, key=lambda at: hashlib.sha256(f"{epoch}:{at}".encode()).digest()))

    def stream(self, num_workers: int = 0, context: Optional[str] = None) -> "Stream":
        """An iterator that can be stopped and resumed; see `Stream`."""
        return Stream(self, num_workers, context)

    def fingerprint(self) -> str:
        """Identifies the batches and their order, whichever folder they are in."""
        digest = hashlib.sha256()
        for at in self._order:
            line = self._lines[at]
            digest.update(json.dumps([line["file"], line.get("proof", {}).get("sha256")]).encode())
        return digest.hexdigest()

    def changes(self) -> str:
        """Identifies the actual files if they may differ from the ones the index was written for; otherwise empty."""
        if self._verify:
            return ""
        seen = [os.stat(os.path.join(self._root, self._lines[at]["file"])) for at in self._order]
        return hashlib.sha256(repr([(stat.st_size, stat.st_mtime_ns) for stat in seen]).encode()).hexdigest()[:16]

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_verified": {}}

    def _reordered(self, order: Sequence[int]) -> "BatchSet":
        return BatchSet(self._root, self._lines, order, self._torch, self._verify)

    def _check(self, path: str, line: Dict[str, Any]) -> None:
        want = line.get("proof", {}).get("sha256")
        try:
            with open_file(path) as file:
                stat = os.fstat(file.fileno())
                seen = (stat.st_size, stat.st_mtime_ns)
                if self._verified.get(path) == seen:
                    return
                digest = hashlib.sha256()
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
        except OSError as err:
            raise BatchError(f"{path}: {err.strerror}; the index lists it") from None
        if digest.hexdigest() != want:
            raise TamperedError(f"{path}: is not the file that the index was written for (load with verify=False to read it anyway)")
        self._verified[path] = seen


class Stream:
    """Iterates over a `BatchSet` once, and can be stopped and resumed at exactly the same batch.

    `state_dict()` counts the batches that the caller was given, not those that workers have read ahead. With
    `num_workers` above 0 batches are read by a `torch.utils.data.DataLoader` in worker processes, started by `context` (`fork`,
    `spawn`, `forkserver`), in the same order.
    """

    def __init__(self, batches: BatchSet, num_workers: int = 0, context: Optional[str] = None):
        self._batches, self._workers, self._context, self._next = batches, num_workers, context, 0

    def __len__(self) -> int:
        return len(self._batches) - self._next

    def __iter__(self) -> Iterator[Batch]:
        rest = self._batches[self._next :]
        source: Iterator[Batch] = iter(rest) if not self._workers else self._loader(rest)
        for batch in source:
            self._next += 1
            yield batch

    def _loader(self, rest: BatchSet) -> Iterator[Batch]:
        from torch.utils.data import DataLoader

        workers = DataLoader(
            rest,  # type: ignore[arg-type]  # a sequence is a map-style dataset
            batch_size=None,
            num_workers=self._workers,
            multiprocessing_context=self._context,
            collate_fn=_copied,
        )
        return iter(workers)

    def state_dict(self) -> Dict[str, Any]:
        return {"batches": self._batches.fingerprint(), "next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["batches"] != self._batches.fingerprint():
            raise BatchError("the state belongs to other batches, or to another order of them (rank, epoch)")
        self._next = int(state["next"])


def _copied(batch: Batch) -> Batch:
    """Copies the tensors of a batch: a mapped file can't be sent from a worker to the trainer."""
    if any(isinstance(x, memoryview) for x in batch.values()):
        raise BatchError("worker processes need numpy, or torch=True")
    return Batch({name: x.clone() if hasattr(x, "clone") else x.copy() for name, x in batch.items()}, batch.line)


def load(
    run: Path,
    channel: Optional[str] = None,
    split: str = "train",
    *,
    torch: bool = False,
    epoch: int = 0,
    verify: bool = True,
    rendered: bool = False,
) -> BatchSet:
    """The batches of a run folder, or of a `batches` folder.

    `channel` is `sft`, `dpo`, `rl` or `sdpo`; it may be omitted if the run has only one. With `torch=True` the values
    are torch tensors, otherwise numpy arrays. Each file's hash is checked when it is first read, and again if its size
    or time has changed; `verify=False` skips that. Rollouts whose ids were made from text (`collator.rl.ids: rendered`)
    don't have the ids that a policy sampled, so they are loaded only with `rendered=True`.
    """
    if channel is not None and channel not in CHANNELS:
        raise ValueError(f"channel {channel!r} is not one of {', '.join(CHANNELS)}")
    if split not in _SPLITS:
        raise ValueError(f"split {split!r} is not one of {', '.join(_SPLITS)}")
    root = folder(run)
    lines, sum = _index(root)
    if channel is None:
        channel = _only_channel(root, lines)
    chosen = _chosen(lines, channel, split)
    if not chosen:
        there = sorted({f"{line['channel']}/{line['split']}" for line in lines})
        raise BatchError(f"{root}: has no {channel} batches for {split}; it has {', '.join(there) or 'none at all'}")
    if channel == "rl" and not rendered:
        for line in chosen:
            if any(row.get("ids") == "rendered" for row in line.get("row_info") or []):
                raise BatchError(f"{root}: {line['file']}: has rollouts whose ids were made from text, not sampled (rendered=True loads them anyway)")
    return BatchSet(root, _Lines(root, channel, split, sum, chosen), range(len(chosen)), torch, verify).epoch(epoch)


def folder(run: Path) -> str:
    """The folder with a run's batches; run may itself be that folder."""
    root = os.fspath(run)
    return root if os.path.exists(os.path.join(root, "index.jsonl")) else os.path.join(root, "batches")


def _chosen(lines: List[Dict[str, Any]], channel: str, split: str) -> List[Dict[str, Any]]:
    return [line for line in lines if line["channel"] == channel and line["split"] == split]


def _only_channel(root: str, lines: List[Dict[str, Any]]) -> str:
    channels = sorted({line["channel"] for line in lines})
    if len(channels) != 1:
        raise BatchError(f"{root}: has batches for {', '.join(channels) or 'no channel'}: say which, as in load(run, {(channels or ['sft'])[0]!r})")
    return str(channels[0])


def _index(root: str) -> Tuple[List[Dict[str, Any]], str]:
    """The lines of the index, and their hash."""
    path = os.path.join(root, "index.jsonl")
    digest, lines = hashlib.sha256(), []
    try:
        for number, text in numbered_lines(path):
            digest.update(text)
            lines.append(_line(f"{path}:{number}", text))
        return lines, digest.hexdigest()
    except OSError as err:
        raise BatchError(f"{path}: {err.strerror}; a run writes it when it has a collator with a tokenizer") from None
    except ValueError as err:
        raise BatchError(f"{path}: {err}") from None


def _line(where: str, text: bytes) -> Dict[str, Any]:
    try:
        line = parse(text)
    except ValueError as err:
        raise BatchError(f"{where}: is not JSON: {err}") from None
    if not isinstance(line, dict) or not all(isinstance(line.get(key), str) for key in ("file", "channel", "split")):
        raise BatchError(f"{where}: has no file, channel and split")
    if not isinstance(line.get("proof", {}), dict) or not _objects(line.get("row_info", [])):
        raise BatchError(f"{where}: has a proof or row_info in a form that no run writes")
    parts = line["file"].split("/")
    if os.path.isabs(line["file"]) or ".." in parts or "\\" in line["file"]:
        raise BatchError(f"{where}: names a file outside the folder: {line['file']!r}")
    return line


def _objects(x: Any) -> bool:
    return x is None or isinstance(x, list) and all(isinstance(item, dict) for item in x)
