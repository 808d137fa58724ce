"""Token batches made from traces during a training loop, for online RL and distillation with new rollouts at every
step."""

import json
import os
import shutil
import tempfile
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from natgo import process
from natgo.errors import CollatorError, DeadlineError, DroppedError, ProcessError, RequestError, SettingsError
from natgo.tensorfile import as_torch, read_tensors

Trace = Mapping[str, Any]
Hints = Callable[[Optional[str], Any], Optional[str]]
_CHANNELS = ("rl", "sdpo", "dpo", "sft")
_NAMES = ("nat_go", "composer")

# The hint that `hints` returns is stored with the error, where the builder finds it.
_HINT = "{% if error_meta and error_meta.hint %}{{ error_meta.hint }}{% endif %}"

# With `hints`, only the errors that the traces report count: `hints` is called for each of them.
_TOLD = {"results": ["flag"], "silence": ["result_flag"], "calls": []}

# How the reference collator handles traces: rollouts from text, one row per site, masks of 1 and -100.
_COMPOSER: Dict[str, Any] = {
    "format": "composer",
    "composer": {"width": "equal", "mask": "ignore_index"},
    "rl": {"ids": "rendered"},
}


class Collated(Dict[str, Any]):
    """Tensors by name, and the books: what went in, what came out, and what was dropped.

    Shapes: `[R, T]` for ids, masks, labels and log-probs of a side, `[R]` for columns with one value per row, `[P]` for
    the pair table of `sdpo`; int64 or float32. If the collator has several channels, each name begins with its channel,
    as in `rl.input_ids`; with `names="composer"` the names are the reference collator's. A channel without rows has no
    keys.
    """

    books: List[Dict[str, Any]]
    """The accounts, {stage, unit, in, out, dropped: {reason: count}}: in is the sum of out and everything dropped."""
    drops: List[Dict[str, Any]]
    """The first dropped items: reason, unit, example, detail."""
    channels: List[Dict[str, Any]]
    """The channels that have rows: rows, tokens, n_active, examples (what row_example indexes), sites."""

    @property
    def dropped(self) -> Dict[str, int]:
        """How many were dropped, by reason; `nat-go explain REASON` says more."""
        out: Dict[str, int] = {}
        for account in self.books:
            for reason, n in account.get("dropped", {}).items():
                out[reason] = out.get(reason, 0) + n
        return out

    def channel(self, name: str) -> Dict[str, Any]:
        """The tensors of one channel, under their plain names: `[R, T]` ids and masks, `[R]` columns."""
        own = {key[len(name) + 1 :]: x for key, x in self.items() if key.startswith(name + ".")}
        if not own and [made["channel"] for made in self.channels] == [name]:
            return dict(self)
        return own


class Collator:
    """Makes batches from traces: `collator(traces)` is a dict of tensors, so it is a `collate_fn` for a DataLoader.

    A trace is a rollout as the source `traces` reads it: `messages` (or `turns`) in the OpenAI chat format with
    `tools`, `reward` (or `final_reward`), `task_id`, `token_ids` and `logprobs` of messages, `dpo_pairs`. Anything
    that doesn't name a model counts as sampled by the model being trained.

    The work is done by one `nat-go collate`, started at the first call and again if it ends; each process that calls,
    such as a DataLoader's worker, has its own, whether it was forked or spawned. A collator can be pickled; its process
    stays behind.

    tokenizer: a Hugging Face folder, a tokenizer.json, or a tokenizer with `save_pretrained`.
    channels: some of `rl`, `sdpo`, `dpo`, `sft`.
    names: `nat_go`, or `composer` for the keys of the reference collator and rollouts made from text.
    hints: for sdpo, `(error_kind, error_meta) -> hint or None`, called for every turn with a `tool_error`; these turns
        are then the errors (unless `builders` says otherwise). Without it, the builder finds errors and hints itself.
    settings, source, builders: as in a configuration: the section `collator`, the settings for the source `traces`, and
        those for each channel's builder (`{"sdpo": {"target": "next_turn"}}`).
    torch: torch tensors, else numpy arrays (without numpy: memoryviews).
    strict: raise `DroppedError` if anything is dropped.
    timeout, start_timeout: seconds for an answer, and for the process to load the tokenizer.
    retries: how often a call is retried if the process ends during it.
    program: path of nat-go; default: the wheel's.
    """

    def __init__(
        self,
        tokenizer: Any,
        channels: Sequence[str] = ("rl", "sdpo"),
        *,
        names: str = "nat_go",
        hints: Optional[Hints] = None,
        settings: Optional[Mapping[str, Any]] = None,
        source: Optional[Mapping[str, Any]] = None,
        builders: Optional[Mapping[str, Mapping[str, Any]]] = None,
        torch: bool = False,
        strict: bool = False,
        timeout: float = 60.0,
        start_timeout: float = 120.0,
        retries: int = 2,
        max_answer_bytes: int = 4 << 30,
        program: Optional[Union[str, "os.PathLike[str]"]] = None,
    ):
        if isinstance(channels, str):
            raise ValueError(f"channels is the text {channels!r}: write [{channels!r}]")
        for name in channels:
            if name not in _CHANNELS:
                raise ValueError(f"channel {name!r} is not one of {', '.join(_CHANNELS)}")
        if names not in _NAMES:
            raise ValueError(f"names {names!r} is not one of {', '.join(_NAMES)}")
        if hints is not None and "sdpo" not in channels:
            raise ValueError("hints are for the channel sdpo, which is not among the channels")
        self._torch, self._strict, self._hints, self._timeout = torch, strict, hints, timeout
        self._max_answer, self._start_timeout, self._retries = max_answer_bytes, start_timeout, retries
        self._program = os.fspath(program) if program is not None else None
        own = {name: dict(builder) for name, builder in (builders or {}).items()}
        if hints is not None:
            given = own.get("sdpo", {})
            asked = {**given.get("hints", {}), "sources": ["rules"], "rules": [{"text": _HINT}]}
            own["sdpo"] = {"detect": _TOLD, **given, "hints": asked}
        section = dict(settings or {})
        if names == "composer":
            section = {**_COMPOSER, **section}
        self._settings = json.dumps({
            "tokenizer": self._folder(tokenizer), "channels": list(channels), "collator": section,
            "source": dict(source or {}), "builders": own,
        }).encode()  # fmt: skip
        self._calls = 0
        self._process: Optional[process.Supervised] = None

    def _folder(self, tokenizer: Any) -> str:
        if isinstance(tokenizer, (str, os.PathLike)):
            return os.path.abspath(tokenizer)
        if not hasattr(tokenizer, "save_pretrained"):
            raise TypeError(f"tokenizer is a {type(tokenizer).__name__}, neither a path nor a tokenizer with save_pretrained")
        folder = tempfile.mkdtemp(prefix="natgo-tokenizer-")
        weakref.finalize(self, _remove, folder, os.getpid())
        tokenizer.save_pretrained(folder)
        return folder

    def __call__(self, traces: Sequence[Trace]) -> Collated:
        """The batch of these traces, its rows in their order; see `Collated` for names and shapes.

        Raises `RequestError` for traces that can't be collated, `DeadlineError`, `ProcessError`, `SettingsError`, and with
        `strict` `DroppedError`.
        """
        self._calls += 1
        frame = self._frame(list(traces))
        try:
            head, body = self._supervised().ask(frame, self._timeout)
        except process.Refused as err:
            raise _refusal(err.error) from None
        except process.Late:
            raise DeadlineError(f"nat-go has not answered within {self._timeout:g} s") from None
        except process.Ended as err:
            raise ProcessError(str(err)) from None
        tensors = read_tensors("the answer", body)
        out = Collated({name: as_torch(x) for name, x in tensors.items()} if self._torch else tensors)
        out.books, out.drops, out.channels = head["books"], head["drops"], head["channels"]
        if self._strict and out.dropped:
            first = out.drops[0]
            detail = first.get("detail", "") and f" ({first['detail']})"
            raise DroppedError(f"{_counts(out.dropped)}; the first is {first['unit']} of {first.get('example', '')}: {first['reason']}{detail}", out.dropped)
        return out

    def _supervised(self) -> process.Supervised:
        if self._process is None:
            if self._program is None:
                from natgo.__main__ import find

                try:
                    self._program = find()
                except FileNotFoundError as err:
                    raise ProcessError(str(err)) from None
            self._process = process.Supervised(
                self._program, self._settings, self._max_answer, self._start_timeout, self._retries
            )
        return self._process

    def _frame(self, traces: List[Trace]) -> bytes:
        if self._hints is not None:
            traces = [self._hinted(trace, number) for number, trace in enumerate(traces)]
        try:
            return json.dumps({"id": self._calls, "traces": traces}, default=_plain, separators=(",", ":")).encode()
        except (TypeError, ValueError, UnicodeError):
            for number, trace in enumerate(traces):
                try:
                    json.dumps(trace, default=_plain).encode()
                except (TypeError, ValueError, UnicodeError) as err:
                    raise RequestError(f"is not JSON: {err}", "bad_request", f"traces[{number}]") from None
            raise

    def _hinted(self, trace: Trace, number: int) -> Trace:
        """The trace, with a hint next to each error."""
        assert self._hints is not None
        for key in ("messages", "traj", "turns"):
            turns = trace.get(key) if isinstance(trace, Mapping) else None
            if not isinstance(turns, Sequence):
                continue
            out = []
            for at, turn in enumerate(turns):
                if isinstance(turn, Mapping) and turn.get("tool_error") is not None:
                    meta = turn.get("error_meta")
                    try:
                        hint = self._hints(turn["tool_error"], meta)
                    except Exception as err:
                        raise RequestError(f"hints raised {type(err).__name__}: {err}", "bad_request", f"traces[{number}].{key}[{at}]") from err
                    turn = {**turn, "error_meta": {**(meta if isinstance(meta, Mapping) else {"meta": meta}), "hint": hint}}
                out.append(turn)
            return {**trace, key: out}
        return trace

    @property
    def pid(self) -> Optional[int]:
        """The id of the nat-go process that serves this one, or None."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """Ends the process. The next call starts another."""
        if self._process is not None:
            self._process.close()

    def __enter__(self) -> "Collator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_process": None}


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _plain(x: Any) -> Any:
    """Converts arrays, tensors and their scalars to JSON types."""
    if hasattr(x, "tolist"):
        return x.tolist()
    if isinstance(x, Mapping):
        return dict(x)
    raise TypeError(f"a {type(x).__name__} can't be written as JSON")


def _counts(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in sorted(dropped.items()))


def _refusal(error: Mapping[str, Any]) -> CollatorError:
    message, where = str(error.get("message", "")), str(error.get("where", ""))
    if error.get("code") == "bad_settings":
        return SettingsError(message, where)
    return RequestError(message, str(error.get("code", "")), where)
