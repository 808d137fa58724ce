"""Models that score given positions, and the teachers that score hinted rows."""

import copy
from contextlib import ExitStack, contextmanager
from typing import Any, Iterator, Optional

import torch
from torch import nn

TEACHERS = ("live", "frozen", "ema")


class AtPositions(nn.Module):  # type: ignore[misc]  # torch may be missing
    """A transformers causal language model as model(ids, mask, positions, row, at): its logits [N,V] at (row, at).

    The hidden states are gathered where they enter the head, within the model's own forward: whatever wraps the model
    (DDP, an adapter) or follows its head (scaling, soft-capping) still applies, and a B x T x V tensor never exists.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any, positions: Any, row: Any, at: Any) -> Any:
        head = getattr(self.model, "module", self.model).get_output_embeddings()
        if head is None:
            raise TypeError(f"{type(self.model).__name__} has no head that predicts tokens: load it with AutoModelForCausalLM.from_pretrained")
        gather = head.register_forward_pre_hook(lambda _, args: (args[0][row, at][None], *args[1:]))
        try:
            logits = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
        finally:
            gather.remove()
        if logits.shape[:2] != (1, len(row)):
            raise TypeError(f"{type(self.model).__name__} doesn't compute its logits with its head alone: they have shape {list(logits.shape)}")
        return logits[0]


@contextmanager
def scoring(model: Any) -> Iterator[Any]:
    """Eval mode without gradients; afterwards every module returns to its previous mode."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        for m, training in modes:
            m.training = training


def frozen(model: Any) -> Any:
    """A copy that is never trained."""
    own = copy.deepcopy(model).eval().requires_grad_(False)
    for module in own.modules():
        module.__dict__.pop("forward", None)  # that a trainer has put there: it would run the module it was made for
    return own


class Teacher:
    """The model that scores hinted rows: `live` is the student itself, `frozen` the student at the start, `ema` trails
    it.

    For a student with an adapter, the frozen teacher is the student with its adapter switched off; otherwise it is a
    copy, or start if given.
    """

    def __init__(self, student: Any, kind: str = "frozen", decay: float = 0.95, start: Optional[Any] = None):
        if kind not in TEACHERS:
            raise ValueError(f"teacher {kind!r} is not one of {', '.join(TEACHERS)}")
        if not 0 <= decay <= 1:
            raise ValueError(f"ema_decay is {decay}: expected a number from 0 to 1")
        self.student, self.kind, self.decay = student, kind, decay
        self.adapter = None
        if kind == "frozen" and start is None:
            self.adapter = next((m for m in student.modules() if hasattr(m, "disable_adapter")), None)
        if kind == "live" or self.adapter is not None:
            self.model = student
        else:
            self.model = start if kind == "frozen" and start is not None else frozen(student)

    @contextmanager
    def scoring(self) -> Iterator[Any]:
        with ExitStack() as stack:
            if self.adapter is not None:
                stack.enter_context(self.adapter.disable_adapter())
            yield stack.enter_context(scoring(self.model))

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self) -> None:
        """Updates an `ema` teacher; called after each step."""
        if self.kind == "ema":
            for mine, its in zip(self.model.parameters(), self.student.parameters()):
                mine.lerp_(its.to(mine), 1 - self.decay)
            for mine, its in zip(self.model.buffers(), self.student.buffers()):
                mine.copy_(its)
