"""Answers what CPython says of JSON values: one {"a": text, "b": text} a line in, one answer a line out (ASCII)."""
import json, sys


def attempt(f):
    try:
        return f()
    except Exception as e:
        return {"error": type(e).__name__}


for line in sys.stdin:
    q = json.loads(line)
    try:
        a, b = json.loads(q["a"]), json.loads(q["b"])
    except Exception as e:
        print(json.dumps({"error": type(e).__name__}), flush=True)
        continue
    print(json.dumps({
        "repr": attempt(lambda: repr(a)),
        "str": attempt(lambda: str(a)),
        "truth": bool(a),
        "eq": a == b,
        "lt": attempt(lambda: a < b),
        "ge": attempt(lambda: a >= b),
        "dumps": attempt(lambda: json.dumps(a)),
        "raw": attempt(lambda: json.dumps(a, ensure_ascii=False)),
        "indented": attempt(lambda: json.dumps([a, b], indent=2)),
        "key": attempt(lambda: json.dumps({a: 1, b: 2})),
    }), flush=True)
