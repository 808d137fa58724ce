"""Writes the page and its plot from the measurements."""

import datetime
import platform
import re
from math import log10
from statistics import median

import judge

BARS = {"ids": ("other context", "#4e79a7"), "unwritten": ("trained, not written", "#e15759"),
        "untrained": ("written, not trained", "#f28e2b")}
TIMES = {(n, phase): (f"{n} turns, {phase}", colour) for n, phase, colour in (
    (8, "cold", "#4e79a7"), (8, "warm", "#a0cbe8"), (128, "cold", "#f28e2b"), (128, "warm", "#ffbe7d"))}
SECTION, KEY, COUNT = re.compile(r"## Preparation speed\n.*?(?=\n## )", re.S), re.compile(r"{{(\w+)}}"), 10_000


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]) + "\n"


def svg(title, groups, bars):
    """Horizontal bars, one group per stack; values are drawn on a logarithmic scale, and written next to their bars."""
    top = log10(max((v for _, vs in groups for v in vs if v), default=1) + 1) or 1
    y, out = 46, []
    for name, vs in groups:
        out.append(f'<text x="198" y="{y + 7 * len(vs) + 2}" text-anchor="end">{name}</text>')
        for (_, colour), v in ((bar, v) for bar, v in zip(bars.values(), vs) if v is not None):
            width = 390 * log10(v + 1) / top
            out.append(f'<rect x="206" y="{y}" width="{width:.1f}" height="11" fill="{colour}"/>'
                       f'<text x="{210 + width:.1f}" y="{y + 10}" font-size="10">{v:,.0f}</text>')
            y += 14
        y += 8
    legend = "".join(f'<rect x="{206 + 450 // len(bars) * k}" y="24" width="10" height="10" fill="{c}"/>'
                     f'<text x="{220 + 450 // len(bars) * k}" y="33" font-size="11">{n}</text>'
                     for k, (n, c) in enumerate(bars.values()))
    size = f'width="670" height="{y + 6}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-size="12" font-family="sans-serif">'
    title = f'<rect {size} fill="white"/><text x="10" y="16">{title}</text>'
    return "".join([head, title, legend, *out, "</svg>\n"])


def scaled(cell):
    """The processor seconds that COUNT conversations take, along the line through the two counts measured."""
    imports, cold, again, warm = (cell[phase][1] for phase in ("imports", "cold", "again", "warm"))
    rise = (warm - again) / (cell["many"] - cell["few"])
    return {"cold": imports + cold + rise * (COUNT - cell["few"]), "warm": warm + rise * (COUNT - cell["many"])}


def speed(folder, cells, stacks):
    """Fills the section on speed of page.md, and puts it into README.md."""
    stacks = {s: of for s, of in stacks.items() if {f"{s} 8", f"{s} 128"} & cells.keys()}
    time = {(s, *t): median(scaled(c)[t[1]] for c in cells[f"{s} {t[0]}"])
            for s in stacks for t in TIMES if f"{s} {t[0]}" in cells}
    show = lambda s, n, phase: "{}{:,.0f}".format(
        "≈" * (cells[f"{s} {n}"][0]["many"] < COUNT), time[s, n, phase]) if (s, n, phase) in time else "-"
    of = lambda s: [cells[f"{s} {n}"] for n in (8, 128) if f"{s} {n}" in cells]
    each = lambda s, get, mid=median: " / ".join(f"{mid(map(get, cell)):,.0f}" for cell in of(s))
    ratios = []
    for t, (name, _) in TIMES.items():
        took = {s: time[s, *t] for s in stacks if (s, *t) in time}
        for first in sorted(took.keys() - {"natgo", "floor"}, key=took.get)[:1]:
            ratios.append([name, stacks[first]["name"], *(f"{took[a] / took[b]:.1f}" if {a, b} <= took.keys() else "-"
                                                          for a, b in ((first, "natgo"), ("natgo", "floor")))])
    (folder / "speed.svg").write_text(svg("Processor seconds for 10,000 conversations (log scale)", [
        (of["name"], [time.get((s, *t)) for t in TIMES]) for s, of in stacks.items()], TIMES))
    parts = {
        "speed": table(["stack", *(name for name, _ in TIMES.values()), "imports", "memory, MiB", "measured", "wall"], [
            [of["name"], *(show(s, *t) for t in TIMES), each(s, lambda c: c["imports"][1]), each(
                s, lambda c: c["peak"]), each(s, lambda c: c["many"], next),
             each(s, lambda c: c["warm"][0], next)] for s, of in stacks.items()]),
        "ratio": table(["", "fastest other", "the fastest other : nat-go", "nat-go : floor"], ratios),
        "runs": table(["stack", "what its run does"], [[of["name"], of["speed"]["says"]] for of in stacks.values()]),
    }
    text = KEY.sub(lambda key: parts[key[1]].rstrip("\n"), SECTION.search((folder / "page.md").read_text())[0])
    (folder / "README.md").write_text(SECTION.sub(lambda _: text, (folder / "README.md").read_text()))


def write(folder, cells, of_stacks, limit):
    names, stacks = list(judge.TEMPLATES), {s: of["name"] for s, of in of_stacks.items()}
    tried = [s for s in stacks if any(f"{s} {t}" in cells for t in names)]
    of = lambda s, t: cells.get(f"{s} {t}", {"empty": "not run"})
    wrong = [(stacks[s], [sum(of(s, t)["found"].get(k, 0) for t in names if "found" in of(s, t)) for k in BARS])
             for s in tried]
    (folder / "wrong.svg").write_text(svg("Wrong tokens over all judged templates (tokens, log scale)", wrong, BARS))
    versions = lambda s: ", ".join(f"{k} {v}" for k, v in next(
        (of(s, t)["versions"] for t in names if "versions" in of(s, t)), {}).items())
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
        "table": count("ids", "unwritten", "untrained", "stopless", "refused"), "rollouts": str(limit),
        "context": count("other context"), "marks": count("header", "newline"), "rows": count("rows"),
        "notes": table(["stack", "templates", "what it says"], notes),
        "worst": table(["stack", "template", "the rows with the most wrong tokens, by number"], worst),
        "settings": table(["stack", "packages", "settings"],
                          [[stacks[s], versions(s) or "this tree", of_stacks[s]["says"]] for s in tried]),
        "planted": "; ".join("%s %d of %d (%d)" % (t, *of("planted", t)["found"]) for t in names),
        "machine": f"{platform.machine()}, Python {platform.python_version()}, {datetime.date.today():%B %Y}",
        "same": "A second run of each stack gave the same rows." if all(
            g.get("same", True) for g in cells.values()) else "A second run of some gave other rows: see cells.json.",
    }
    text = KEY.sub(lambda key: parts.get(key[1], key[0]).rstrip("\n"), (folder / "page.md").read_text())
    kept = SECTION.search((folder / "README.md").read_text()) or SECTION.search(text)
    (folder / "README.md").write_text(SECTION.sub(lambda _: kept[0], text))
