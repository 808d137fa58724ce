"""Writes the page and its plot from the measurements."""

import datetime
import platform
from math import log10

import judge

BARS = {"ids": ("other context", "#4e79a7"), "unwritten": ("trained, not written", "#e15759"),
        "untrained": ("written, not trained", "#f28e2b")}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]) + "\n"


def svg(title, groups):
    """Horizontal bars, one group per stack; values are drawn on a logarithmic scale, and written next to their bars."""
    values = [v for _, vs in groups for v in vs if v]
    top = log10(max(values, default=1) + 1) or 1
    y, out = 46, []
    for name, vs in groups:
        out.append(f'<text x="198" y="{y + 7 * len(vs) + 2}" text-anchor="end">{name}</text>')
        for (_, colour), v in zip(BARS.values(), vs):
            width = 390 * log10(v + 1) / top
            out.append(f'<rect x="206" y="{y}" width="{width:.1f}" height="11" fill="{colour}"/>'
                       f'<text x="{210 + width:.1f}" y="{y + 10}" font-size="10">{v:,.0f}</text>')
            y += 14
        y += 8
    legend = "".join(f'<rect x="{206 + 150 * k}" y="24" width="10" height="10" fill="{c}"/>'
                     f'<text x="{220 + 150 * k}" y="33" font-size="11">{n}</text>'
                     for k, (n, c) in enumerate(BARS.values()))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="670" height="{y + 6}" font-size="12" '
            'font-family="sans-serif">'
            f'<rect width="670" height="{y + 6}" fill="white"/><text x="10" y="16">{title}</text>{legend}'
            + "".join(out) + "</svg>\n")


def write(folder, cells, of_stacks, limit):
    names, stacks = list(judge.TEMPLATES), {s: of["name"] for s, of in of_stacks.items()}
    tried = [s for s in stacks if any(f"{s} {t}" in cells for t in names)]
    of = lambda s, t: cells.get(f"{s} {t}", {"empty": "not run"})
    wrong = [(stacks[s], [sum(of(s, t)["found"].get(k, 0) for t in names if "found" in of(s, t)) for k in BARS])
             for s in tried]
    (folder / "wrong.svg").write_text(svg("Wrong tokens over all judged templates (tokens, log scale)", wrong))
    versions = lambda s: ", ".join(f"{k} {v}" for k, v in next(
        (of(s, t)["versions"] for t in names if "versions" in of(s, t)), {}).items())
    text = (folder / "page.md").read_text()
    why = lambda got: got.get("empty") or got.get("failed") or next(iter(got.get("refused", {}).values()), None)
    said = {}
    for s, t in ((s, t) for s in tried for t in names if why(of(s, t))):
        said.setdefault((stacks[s], why(of(s, t)).replace("|", "\\|").replace("\n", " ")), []).append(t)
    notes = [(name, ", ".join(where), what) for (name, what), where in said.items()]
    worst = [(stacks[s], t, ", ".join(f"row {n} ({w})" for w, n, _ in of(s, t)["worst"]))
             for s in tried for t in names if of(s, t).get("worst")]
    each = lambda got, keys: " / ".join(f"{got['found'].get(key, 0):,}" for key in keys) if "found" in got else "-"
    count = lambda *keys: table(["stack", *names], [[stacks[s], *(each(of(s, t), keys) for t in names)] for s in tried])
    parts = {
        "table": count("ids", "unwritten", "untrained", "stopless", "refused"),
        "context": count("other context"), "marks": count("header", "newline"), "rows": count("rows"),
        "notes": table(["stack", "templates", "what it says"], notes),
        "worst": table(["stack", "template", "the rows with the most wrong tokens, by number"], worst),
        "settings": table(["stack", "packages", "settings"],
                          [[stacks[s], versions(s) or "this tree", of_stacks[s]["says"]] for s in tried]),
        "planted": "; ".join("%s %d of %d (%d)" % (t, *of("planted", t)["found"]) for t in names),
        "rollouts": str(limit),
        "machine": f"{platform.machine()}, Python {platform.python_version()}, {datetime.date.today():%B %Y}",
        "same": "A second run of each stack gave the same rows." if all(
            g.get("same", True) for g in cells.values()) else "A second run of some gave other rows: see cells.json.",
    }
    for key, value in parts.items():
        text = text.replace("{{%s}}" % key, value.rstrip("\n"))
    (folder / "README.md").write_text(text)
