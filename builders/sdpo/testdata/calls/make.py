"""Makes dev.jsonl and held.jsonl: results of tool calls, labelled by whether the call failed.

    python3 make.py [PATH-ENTRY...]   # entries are put before PATH: ruff, mypy, flake8, pylint, eslint, tsc

Runs the programs of programs.py, shows them as harnesses.py does, and adds what authored.py has. Groups (a program, a
framework, a tool) go to one half each, by a hash of their name within their family, before anyone looks at a text.
"""

import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import authored
import harnesses
import more
import programs

HERE = pathlib.Path(__file__).parent
HOME = "/home/user/project"


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, kind, body = {
            "/ok": (200, "application/json", '{"id": 7, "name": "kettle", "error": null}'),
            "/jobs": (200, "application/json", '[{"id": 1, "status": "failed", "error": "disk full", "exit_code": 137}]'),
            "/page": (200, "text/html", "<html><body><h1>Errors</h1><p>Error: the 404 page explained.</p></body></html>"),
            "/boom": (500, "application/json", '{"error": "internal"}'),
        }.get(self.path, (404, "application/json", '{"error": "not found"}'))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body.encode())

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


def clean(text, folder, url):
    text = text.replace(str(folder), HOME).replace(url, "http://127.0.0.1:8080")
    text = re.sub(r"/(?:root|tmp|usr|work)[^\s:'\")]*?/(?:lib/)?(python3\.\d+)/", r"/usr/lib/\1/", text)
    text = re.sub(r"/(?:root|tmp|work)/[^\s:'\")]*/", "/opt/tools/", text)
    text = re.sub(r"/(?:root|tmp|work)/", "/opt/tools/", text)
    text = re.sub(r"(?<=Process ID: )\d+|(?<=in )\d+\.\d+(?=s)", "0.1", text)
    return text


def run(command, files, url):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="calls"))
    try:
        for name, body in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(body)
        env = dict(os.environ, HOME=str(folder), URL=url, LC_ALL="C.UTF-8", GIT_CONFIG_NOSYSTEM="1", TERM="dumb",
                   GIT_AUTHOR_DATE="2024-05-01T10:00:00Z", GIT_COMMITTER_DATE="2024-05-01T10:00:00Z",
                   CARGO_HOME=os.path.expanduser("~/.cargo"), RUSTUP_HOME=os.path.expanduser("~/.rustup"),
                   PYENV_ROOT=os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), PYTHONDONTWRITEBYTECODE="1",
                   GOCACHE=str(HERE / ".gocache"), GOFLAGS="", GOTOOLCHAIN="local", NO_COLOR="1", CARGO_TERM_COLOR="never")
        def once(**how):
            return subprocess.run(["bash", "-c", command], cwd=folder, env=env, timeout=120, text=True, errors="replace",
                                  stdin=subprocess.DEVNULL, **how)
        both = once(stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for path in sorted(folder.rglob("*"), reverse=True):  # as it was, for the second run
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        for name, body in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(body)
        apart = once(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return [clean(x, folder, url) for x in (both.stdout, apart.stdout, apart.stderr)] + [both.returncode]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def runs(url):
    for i, (family, program, kind, command, files) in enumerate(programs.RUNS):
        both, out, err, code = run(command, files, url)
        if (kind == "good") != (code == 0) and kind != "answer":
            sys.exit(f"{command}: labelled {kind}, and its exit code is {code}:\n{both}")
        shown = re.sub(r"^git init.*?config user.name A && (?:git add -A && git commit -q -m first && )?", "", command)
        shown = shown.replace("$URL", "http://127.0.0.1:8080")
        pick = int(hashlib.sha256(f"{program}{i}".encode()).hexdigest(), 16)
        choices = [harnesses.UNCODED[pick % len(harnesses.UNCODED)]]
        if kind != "answer":
            choices += [harnesses.CODED[pick % len(harnesses.CODED)], harnesses.CODED[(pick // 64) % len(harnesses.CODED)]]
        for show, tool, arg in dict.fromkeys(choices):
            coded = (show, tool, arg) in harnesses.CODED
            if kind == "fail" and not coded and not both.strip():
                continue  # nothing in the text says so: debatable
            yield dict(family=family, group=program, source=show.__name__, tool=tool, arguments={arg: shown},
                       text=show(shown, both, code, out, err), failed=kind == "fail")


def written(part):
    for family, group, source, failed, tool, arguments, text in part.results():
        if not isinstance(text, str):
            text = json.dumps(text)
        yield dict(family=family, group=group, source=source, tool=tool, arguments=arguments, text=text, failed=failed)


def main():
    os.environ["PATH"] = os.pathsep.join([*sys.argv[1:], os.environ["PATH"]])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = list(runs(f"http://127.0.0.1:{server.server_port}")) + list(written(authored))
    server.shutdown()
    groups = sorted({(r["family"], hashlib.sha256(r["group"].encode()).hexdigest()) for r in rows})
    half = {g: i % 2 for i, g in enumerate(groups)}
    seen, files = set(), ([], [])
    for r in rows:
        key = (r["text"], r["failed"])
        if key in seen and r["text"]:
            continue
        seen.add(key)
        files[half[r["family"], hashlib.sha256(r["group"].encode()).hexdigest()]].append(r)
    files[0].extend(written(more))
    for name, part in zip(("dev", "held"), files):
        with open(HERE / f"{name}.jsonl", "w") as f:
            for r in part:
                f.write(json.dumps(r, ensure_ascii=False) + "\n")
        print(f"{name}: {len(part)} results, {sum(r['failed'] for r in part)} failed")
    shutil.rmtree(HERE / ".gocache", ignore_errors=True)


if __name__ == "__main__":
    main()
