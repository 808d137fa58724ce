#!/usr/bin/env python3
"""Draws demo.svg, the terminal picture in ../README.md: picture.py NAT-GO > demo.svg

The commands below are run in a 100-column terminal, in a copy of this folder; their output becomes text in the picture,
with its colours.
"""

import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile

COMMANDS = [
    ("nat-go finetune run --config-file finetune.yml --run-id demo", None),
    ("nat-go dataset show out/demo --limit 1", 26),
]
COLUMNS, LINE, CELL, SIZE = 100, 17, 7.81, 13
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}


def shown(command, folder, program):
    """What a command prints in a terminal."""
    main, other = pty.openpty()
    env = dict(os.environ, PATH=os.path.dirname(program) + os.pathsep + os.environ["PATH"], TERM="xterm", COLUMNS=str(COLUMNS))
    env.pop("NO_COLOR", None)
    import fcntl, struct, termios

    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    child = subprocess.Popen(["sh", "-c", command], cwd=folder, stdout=other, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=env)
    os.close(other)
    text = b""
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        text += chunk
    os.close(main)
    if child.wait() != 0:
        sys.exit(f"{command}: exit status {child.returncode}\n{text.decode()}")
    return text.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


def spans(line):
    """A line as SVG: a span for each style."""
    out, style = [], ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            codes = part[2:-1].split(";")
            style = "" if codes in (["0"], [""]) else " ".join(
                ['fill="%s"' % COLOURS[c] for c in codes if c in COLOURS]
                + ['font-weight="bold"' for c in codes if c == "1"] + ['opacity="0.6"' for c in codes if c == "2"])
        elif part:
            out.append(f"<tspan {style}>{html.escape(part)}</tspan>" if style else html.escape(part))
    return "".join(out)


def main():
    program = os.path.abspath(sys.argv[1])
    lines = []
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "demo")
        shutil.copytree(os.path.dirname(os.path.abspath(__file__)), folder, ignore=shutil.ignore_patterns("out"))
        for command, most in COMMANDS:
            printed = shown(command, folder, program)
            lines += ["\x1b[1m$ " + command + "\x1b[0m"] + printed[:most] + [""]
    width, height = round(COLUMNS * CELL + 32), len(lines) * LINE + 40
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">')
    print("<title>nat-go makes preference pairs from a real NAT run and shows one</title>")
    print(f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>')
    print(f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{SIZE}" fill="#e6edf3" xml:space="preserve">')
    for i, line in enumerate(lines):
        if line:
            print(f'<text x="16" y="{32 + i * LINE}">{spans(line)}</text>')
    print("</g>\n</svg>")


main()
