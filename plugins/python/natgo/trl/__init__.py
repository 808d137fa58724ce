"""TRL's trainers on a run's tokens: its own ids, and a loss over exactly the tokens that nat-go marked as trained.

    from natgo.trl import DPOTrainer, pairs
    from trl import DPOConfig

    DPOTrainer("path/to/model", args=DPOConfig("out", max_length=None), train_dataset=pairs("out/first")).train()

On its own, TRL retokenises the texts and trains the whole answer, including tool results. Here nothing is retokenised,
cut or remasked; a TRL option that would change what is trained is refused by name. Two trainers are not TRL's:
`HintTrainer` distils a hinted model into the model without the hint, and `CompositeTrainer` adds that loss and DPO to
GRPO. Tested with TRL 1.9 and 1.16.

TRL is imported when one of these names is first used; `natgo.trl.losses` and `natgo.trl.microbatch` need only torch.
"""

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from natgo.trl.collators import AnswerCollator, HintCollator, PairCollator
    from natgo.trl.composite import CompositeConfig, CompositeTrainer
    from natgo.trl.exact import DPOTrainer, KTOTrainer, SFTTrainer
    from natgo.trl.hint_trainer import HintConfig, HintTrainer
    from natgo.trl.rows import answers, demonstrations, hints, pairs, rollouts

_FROM = {
    "AnswerCollator": "collators",
    "HintCollator": "collators",
    "PairCollator": "collators",
    "CompositeConfig": "composite",
    "CompositeTrainer": "composite",
    "DPOTrainer": "exact",
    "KTOTrainer": "exact",
    "SFTTrainer": "exact",
    "HintConfig": "hint_trainer",
    "HintTrainer": "hint_trainer",
    "answers": "rows",
    "demonstrations": "rows",
    "hints": "rows",
    "pairs": "rows",
    "rollouts": "rows",
}
__all__ = list(_FROM)


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module 'natgo.trl' has no attribute {name!r}")
    return getattr(importlib.import_module(f"natgo.trl.{_FROM[name]}"), name)


def __dir__() -> List[str]:
    return sorted([*globals(), *_FROM])
