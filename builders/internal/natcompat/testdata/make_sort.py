"""Writes how CPython sorts lists with NaN in them: one line a list, with its length, kind and a hash of the order.

usage: make_sort.py > sort.txt   (CPython 3.11)

The lists come from a generator that sort_test.go repeats.
"""
import math

MASK = (1 << 64) - 1


def values(n, kind):
    x, out = (n * 31 + kind) & MASK, []
    for i in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) & MASK
        u = (x >> 33) % 1000
        out.append([
            lambda: float(u // 10),
            lambda: math.nan if u < 100 else float(u % 10),
            lambda: math.nan if u < 500 else float(i),
            lambda: float(-i) if u >= 30 else math.nan,
            lambda: float(i % (n // 2 + 1)) if u >= 20 else math.nan,
            lambda: [math.nan, math.inf, -math.inf, 0.0, 1.0][u % 5],
            lambda: float(i + u % 3),
        ][kind]())
    return out


for n in (2, 3, 5, 8, 20, 40, 63, 64, 65, 100, 129, 200, 500, 1000, 3000):
    for kind in range(7):
        keys = values(n, kind)
        h = 14695981039346656037
        for k in sorted(range(n), key=lambda i: keys[i], reverse=True):
            h = ((h ^ k) * 1099511628211) & MASK
        print(n, kind, h)
