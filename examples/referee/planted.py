"""Checks the judge itself with rows that are right by construction, and with one error in each."""

import itertools
import random


def truth_rows(the):
    """Yields a row per answer, right by construction, with the answer's start and the length before any answer."""
    for r, truth in enumerate(the.truths):
        for turn in truth.turns:
            if turn.shown:
                given, written = turn.given[0], turn.written[0]
                yield {"rollout": r, "upto": turn.index + 1, "ids": given + written,
                       "mask": [0] * len(given) + [1] * len(written)}, len(given), len(truth.turns[0].given[0])


def plant(row, start, first, kind, dice):
    """Returns a copy of a row with one error, and the count that must become 1 or more."""
    ids, mask = list(row["ids"]), list(row["mask"])
    at = dice.randrange(start, len(ids))
    before = dice.randrange(first // 2, first - 4)
    if kind < 3:
        mask[(before, at, -1)[kind]] = int(kind == 0)
    elif kind == 3:
        ids[before] = (ids[before] + 1) % 1000
    else:
        del ids[before], mask[before]
    return ids, mask, ("unwritten", "untrained", "stopless", "ids", "ids")[kind]


def found(the, count=100):
    """Plants an error in each row; returns how many the judge finds, the total, and its errors in clean rows."""
    dice, rows = random.Random(46), list(itertools.islice(truth_rows(the), 4 * count))
    dice.shuffle(rows)
    hit = wrong = 0
    for n, (row, start, first) in enumerate(rows[:count]):
        clean, _ = the.judge([row], set(range(len(the.truths))) - {row["rollout"]})
        wrong += any(clean.get(k) for k in ("ids", "unwritten"))
        ids, mask, key = plant(row, start, first, n % 5, dice)
        got, _ = the.judge([row | {"ids": ids, "mask": mask}], set(range(len(the.truths))) - {row["rollout"]})
        hit += got.get(key, 0) > clean.get(key, 0)
    return hit, len(rows[:count]), wrong
