"""Writes the page and its plot from what was measured."""

import datetime
import platform

import judge

NAMES = {"stock": "transformers", "trl": "TRL", "axolotl": "axolotl", "renderers": "renderers",
         "tinker": "tinker-cookbook", "swift": "ms-swift", "unsloth": "Unsloth", "natgo": "nat-go",
         "trl_natgo": "nat-go's rows in TRL", "axolotl_natgo": "nat-go's rows in axolotl"}
COLOURS = {"ids": "#4e79a7", "unwritten": "#e15759", "untrained": "#f28e2b"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]) + "\n"


def svg(title, groups, series, unit):
    """Horizontal bars, one group a stack; a value is drawn to a scale of its logarithm, and written beside."""
    from math import log10
    values = [v for _, vs in groups for v in vs if v]
    top = log10(max(values, default=1) + 1) or 1
    y, out = 46, []
    for name, vs in groups:
        out.append(f'<text x="158" y="{y + 7 * len(vs) + 2}" text-anchor="end">{name}</text>')
        for (label, colour), v in zip(series, vs):
            if v is not None:
                width = 430 * log10(v + 1) / top
                out.append(f'<rect x="166" y="{y}" width="{width:.1f}" height="11" fill="{colour}"/>'
                           f'<text x="{170 + width:.1f}" y="{y + 10}" font-size="10">{v:,.0f}</text>')
            y += 14
        y += 8
    legend = "".join(f'<rect x="{166 + 150 * k}" y="24" width="10" height="10" fill="{c}"/>'
                     f'<text x="{180 + 150 * k}" y="33" font-size="11">{n}</text>' for k, (n, c) in enumerate(series))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="670" height="{y + 6}" font-size="12" '
            'font-family="sans-serif">'
            f'<rect width="670" height="{y + 6}" fill="white"/><text x="10" y="16">{title} ({unit})</text>{legend}'
            + "".join(out) + "</svg>\n")


def figure(got, *keys):
    return sum(got["found"].get(k, 0) for k in keys)


def shown(got):
    if "found" not in got:
        return "-"
    f = got["found"]
    if f["refused"] and not f["rows"]:
        return "refused"
    return " / ".join(f"{f.get(k, 0):,}" for k in ("ids", "unwritten", "untrained", "stopless", "refused"))


def write(folder, cells, stacks, settings, planted, limit):
    names = list(judge.TEMPLATES)
    tried = [s for s in stacks if any(f"{s} {t}" in cells for t in names)]
    of = lambda s, t: cells.get(f"{s} {t}", {"empty": "not run"})
    wrong = [(NAMES[s], [sum(figure(of(s, t), k) for t in names if "found" in of(s, t)) for k in COLOURS])
             for s in tried]
    (folder / "wrong.svg").write_text(svg("Wrong tokens over all judged templates", wrong,
                                          [("other context", "#4e79a7"), ("trained, not written", "#e15759"),
                                           ("written, not trained", "#f28e2b")], "tokens, log scale"))
    head = ["stack", *names]
    versions = lambda s: next((of(s, t)["versions"] for t in names if "versions" in of(s, t)), {})
    text = (folder / "page.md").read_text()
    notes, seen = [], set()
    for s in tried:
        for t in names:
            got = of(s, t)
            why = got.get("empty") or got.get("failed") or next(iter(got.get("refused", {}).values()), None)
            if why and (s, why) not in seen:
                seen.add((s, why))
                where = [u for u in names if (of(s, u).get("empty") or of(s, u).get("failed") or
                                              next(iter(of(s, u).get("refused", {}).values()), None)) == why]
                notes.append((NAMES[s], ", ".join(where), why.replace("|", "\\|").replace("\n", " ")))
    worst = [(NAMES[s], t, ", ".join(f"row {n} ({w})" for w, n, _ in of(s, t)["worst"]))
             for s in tried for t in names if of(s, t).get("worst")]
    each = lambda show: table(head, [[NAMES[s], *(show(of(s, t)) if "found" in of(s, t) else "-" for t in names)]
                                     for s in tried])
    more = lambda key: each(lambda got: f"{figure(got, key):,}")
    parts = {
        "table": table(head, [[NAMES[s], *(shown(of(s, t)) for t in names)] for s in tried]),
        "context": more("other context"),
        "marks": each(lambda got: f"{figure(got, 'header'):,} / {figure(got, 'newline'):,}"),
        "rows": more("rows"),
        "notes": table(["stack", "templates", "what it says"], notes),
        "worst": table(["stack", "template", "the rows with the most wrong tokens, by number"], worst),
        "settings": table(["stack", "packages", "settings"],
                          [[NAMES[s], ", ".join(f"{k} {v}" for k, v in versions(s).items()) or "this tree", settings[s]]
                           for s in tried]),
        "absent": ", ".join(NAMES[s] for s in stacks if s not in tried) or "none",
        "planted": planted, "rollouts": str(limit),
        "machine": f"{platform.machine()}, Python {platform.python_version()}, {datetime.date.today():%B %Y}",
        "same": "A second run of each stack gave the same rows." if all(
            g.get("same", True) for g in cells.values()) else "A second run of some gave other rows: see cells.json.",
    }
    for key, value in parts.items():
        text = text.replace("{{%s}}" % key, value.rstrip("\n"))
    (folder / "README.md").write_text(text)
