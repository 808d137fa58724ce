"""The rows of a run's data set, as `datasets.Dataset`."""

import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Union

from natgo.errors import RowsError, TamperedError, missing
from natgo.runfiles import MAX_MANIFEST_BYTES, numbered_lines, open_file, parse

if TYPE_CHECKING:
    from datasets import Dataset

Path = Union[str, "os.PathLike[str]"]
# Columns without a fixed shape: tool definitions and calls can have any keys. In a struct, each row would get the
# keys of all rows, with None as the value.
_FREE = ("arguments", "parameters", "tools")
_MAX_NAMES = 1000  # of an object: with more, it is read as JSON and not as a struct
_MAX_DEPTH = 12  # of objects and lists in a column: below, values are read as JSON


def rows(run: Path, format: str, split: str = "train", *, kind: str = "", verify: bool = True) -> "Dataset":
    """The rows of a run folder in one format, as a `datasets.Dataset`.

    `format` is one that the run wrote: `trl`, `messages`, `verl`, `sft_parquet` and so on. `kind` is required if the
    format has rows of several kinds: `preference`, `demonstration` or `rollout`. Columns have the types of the rows'
    values; tool definitions and call arguments are `datasets.Json`, so that each is read back as it was written.
    The file is checked against the hash in the manifest; `verify=False` skips that.
    """
    try:
        import datasets
    except ModuleNotFoundError:
        raise missing("natgo.rows", "datasets") from None
    root = os.fspath(run)
    file = _find(_manifest(os.path.join(root, "manifest.json")), root, format, split, kind)
    path = os.path.join(root, "dataset", *file["path"].split("/"))
    digest = _digest(path)
    if verify and digest != file.get("xxh3"):
        raise TamperedError(f"{path}: is not the file that the manifest was written for (verify=False reads it anyway)")
    if path.endswith(".parquet"):
        return _table(path)
    features = datasets.Features({name: _feature(name, shape) for name, shape in _shape(path).items()})
    # If the same bytes were read before, the rows come from the cache of datasets.
    return datasets.Dataset.from_generator(_read, features=features, gen_kwargs={"path": path}, fingerprint=digest)


def _table(path: str) -> "Dataset":
    import datasets
    import pyarrow

    try:
        table = datasets.Dataset.from_parquet(path)
    except (pyarrow.ArrowException, datasets.exceptions.DatasetsError, ValueError, TypeError, KeyError, OSError) as err:
        why = str(err.__cause__ or err).splitlines()
        raise RowsError(f"{path}: is not a sound Parquet file: {why[0] if why else type(err).__name__}") from None
    for name, feature in table.features.items():
        if not _plain(feature):
            raise RowsError(f"{path}: the column {name!r} has a type that no run writes: {type(feature).__name__}")
    return table


def _plain(feature: Any) -> bool:
    """Whether a column holds plain values: image and audio columns name files, which reading a row would open."""
    import datasets

    if isinstance(feature, dict):
        return all(_plain(x) for x in feature.values())
    if isinstance(feature, (list, tuple)):
        return all(_plain(x) for x in feature)
    if isinstance(feature, (datasets.List, datasets.LargeList)):
        return _plain(feature.feature)
    return isinstance(feature, (datasets.Value, datasets.Json))


def _manifest(path: str) -> Dict[str, Any]:
    try:
        with open_file(path) as file:
            text = file.read(MAX_MANIFEST_BYTES + 1)
        if len(text) > MAX_MANIFEST_BYTES:
            raise RowsError(f"{path}: has more than {MAX_MANIFEST_BYTES} bytes")
        manifest = parse(text)
    except OSError as err:
        raise RowsError(f"{path}: {err.strerror}; a run writes it when it is completed") from None
    except ValueError as err:
        raise RowsError(f"{path}: is not JSON: {err}") from None
    if not isinstance(manifest, dict):
        raise RowsError(f"{path}: is not an object")
    return manifest


def _find(manifest: Dict[str, Any], root: str, format: str, split: str, kind: str) -> Dict[str, Any]:
    try:
        there: List[Dict[str, Any]] = [
            {"format": written["format"], **{key: file[key] for key in ("path", "kind", "split")}, "xxh3": file.get("xxh3")}
            for written in manifest.get("dataset") or [] for file in written.get("files") or []
        ]
    except (AttributeError, KeyError, TypeError):
        there = [{"path": None}]
    if not all(isinstance(file.get(key), str) for file in there for key in ("path", "format", "split", "kind")):
        raise RowsError(f"{root}: the manifest lists the files of its data set in a form that no run writes")
    fit = [f for f in there if f["format"] == format and f["split"] == split and kind in ("", f["kind"])]
    if not fit:
        names = sorted({f"{f['format']}/{f['split']} ({f['kind']})" for f in there})
        wanted = f"{format}/{split}" + (f" ({kind})" if kind else "")
        raise RowsError(f"{root}: has no {wanted} rows; it has {', '.join(names) or 'none at all'}")
    if len(fit) > 1:
        kinds = ", ".join(sorted(repr(f["kind"]) for f in fit))
        raise RowsError(f"{root}: {format} has rows of several kinds for {split}: choose with kind, one of {kinds}")
    file = fit[0]
    if os.path.isabs(file["path"]) or ".." in file["path"].split("/") or "\\" in file["path"]:
        raise RowsError(f"{root}: the manifest names a file outside the folder: {file['path']!r}")
    return file


def _digest(path: str) -> str:
    import xxhash  # comes with datasets

    digest = xxhash.xxh3_128()
    try:
        with open_file(path) as data:
            for block in iter(lambda: data.read(1 << 20), b""):
                digest.update(block)
    except OSError as err:
        raise RowsError(f"{path}: {err.strerror}; the manifest lists it") from None
    return str(digest.hexdigest())


def _read(path: str) -> Iterator[Dict[str, Any]]:
    try:
        for number, text in numbered_lines(path):
            try:
                row = parse(text)
            except ValueError as err:
                raise RowsError(f"{path}:{number}: is not JSON: {err}") from None
            if not isinstance(row, dict):
                raise RowsError(f"{path}:{number}: is not an object")
            yield row
    except ValueError as err:
        raise RowsError(f"{path}: {err}") from None


# A shape is None (only nulls), the name of a type, "json" for values without a single type, a list of one shape, or a
# dict of shapes.


def _shape(path: str) -> Dict[str, Any]:
    shape: Any = {}
    for row in _read(path):
        try:
            shape = _joined(shape, _shape_of(row, _MAX_DEPTH))
        except ValueError as err:
            raise RowsError(f"{path}: {err}") from None
        if shape == "json":
            raise RowsError(f"{path}: has rows with more than {_MAX_NAMES} columns")
    if not shape:
        raise RowsError(f"{path}: has no rows")
    return dict(shape)


def _shape_of(value: Any, depth: int) -> Any:
    if value is None:
        return None
    if depth == 0 and isinstance(value, (dict, list)):
        return "json"
    if isinstance(value, dict):
        if len(value) > _MAX_NAMES:
            return "json"
        return {name: "json" if name in _FREE else _shape_of(x, depth - 1) for name, x in value.items()}
    if isinstance(value, list):
        item: Any = None
        for x in value:
            item = _joined(item, _shape_of(x, depth - 1))
        return [item]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("a number has more than 64 bits")
    return {bool: "bool", int: "int64", float: "float64", str: "string"}[type(value)]


def _joined(a: Any, b: Any) -> Any:
    if a is None or b is None or a == b:
        return b if a is None else a
    if isinstance(a, dict) and isinstance(b, dict):
        names = {**a, **b}
        return {name: _joined(a.get(name), b.get(name)) for name in names} if len(names) <= _MAX_NAMES else "json"
    if isinstance(a, list) and isinstance(b, list):
        return [_joined(a[0], b[0])]
    if {str(a), str(b)} == {"int64", "float64"}:
        return "float64"
    return "json"


def _feature(name: str, shape: Any) -> Any:
    import datasets

    if shape == "json":
        return datasets.List(datasets.Json()) if name == "tools" else datasets.Json()
    if isinstance(shape, dict):
        return {inner: _feature(inner, x) for inner, x in shape.items()} or datasets.Json()
    if isinstance(shape, list):
        return datasets.List(_feature("", shape[0]))
    return datasets.Value(shape or "string")
