"""Makes sweep-dev.jsonl and sweep.jsonl: what the programs of a machine and the functions of libraries say when they are misused.

    python3 sweep.py PYTHON NODE_MODULES FOLDER...   # an interpreter with libraries, npm's folder, folders of programs

Every program that no other set has is called in the same few wrong ways and asked for its help and version; its exit status says
whether it failed. Every public function of a module is called with the same few wrong arguments; what it raises is handed on in
one of the ways that frameworks and servers have. Programs run without a network, as a user who may do nothing. A program or a
module goes to one half by a hash of its name. Rules may be made with sweep-dev.jsonl; nobody looks at a text of sweep.jsonl.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import blind

WRONG = ["--frobnicate", "missing.txt", "", "frobnicate", "list.txt", "-o /nowhere/x list.txt", "-9 x", "dir"]
FINE = ["--version", "--help", "notes.md", "ok.json"]
PROGRAMS = 450  # how many are called, picked by a hash of their names
# An exit status other than 0 is their answer, or they end, start or wait for what is not theirs.
LEFT_OUT = re.compile(
    r"^(?:\[|test|false|expr|which.*|pgrep|pidof|.?z?[efx]?z?grep.*|.*diff.*|.?z?cmp|comm|tty|mesg|timeout|bash.*|sh|dash|rbash|login|su|sudo.*|"
    r"reboot|halt|poweroff|shutdown|init|telinit|kill.*|.*kill|systemctl|service|yes|watch|top|htop|sleep|tail|dpkg.*|apt.*|"
    r"mkfs.*|fsck.*|.*getty|chroot|nsenter|unshare|setpriv|runuser|vi.*|nano|ed|emacs.*|ssh.*|sftp|X.*|.*chrom.*|firefox.*|"
    r"git-.*|python.*|pip.*|node|npm|npx|perl5?.*|systemd-.*|docker.*|gdb.*|strace|ltrace|script.*|cpan.*|screen|tmux|"
    r"clear.*|reset|tput|true|nohup|nice|env|xargs|find|expect|wall|write|grub.*|update-.*|invoke-rc.d|start-stop-daemon|run-parts|activate.*)$")

FUNCTIONS = r"""
import contextlib, importlib, inspect, io, json, os, signal, sys, warnings
warnings.simplefilter("ignore")
ARGUMENTS = [("frobnicate",), (-1,), ("missing.txt",), (b"\xff\xfe",), ("frobnicate", 7), (None,), ({"a": 1},), ("{a: [", "x"), ([1, "a"],)]
def ring(*_): raise SystemError("slow")
signal.signal(signal.SIGALRM, ring)
out = []
try:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        m = importlib.import_module(sys.argv[1])
        seen = set()
        for name in sorted(n for n in dir(m) if not n.startswith("_"))[:150]:
            f = getattr(m, name, None)
            if not callable(f) or inspect.isclass(f) and issubclass(f, BaseException): continue
            for args in ARGUMENTS:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.5)
                    f(*args)
                except (SystemExit, KeyboardInterrupt): pass
                except BaseException as e:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    if str(e) == "slow" or not str(e).strip() or len(str(e)) > 900: continue
                    shape = "".join(c for c in str(e) if c.isalpha())[:40]
                    if shape in seen or isinstance(e, (TypeError, AttributeError)) and len(seen) > 2: continue
                    seen.add(shape)
                    out.append([type(e).__module__, type(e).__name__, str(e)])
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            if len(out) > 40: break
except BaseException: pass
os.write(1, ("\n@@" + json.dumps(out)).encode())
os._exit(0)
"""

EXPORTS = r"""
const name = process.argv[2], out = [], seen = new Set(), real = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write = () => true; process.exit = () => { throw new Error("exit"); };
process.on("uncaughtException", () => {}); process.on("unhandledRejection", () => {});
const args = [["frobnicate"], [-1], ["missing.txt"], [undefined], ["{a: [", 7], [{a: 1}], [null, "x"], [[1, "a"]]];
(async () => {
  try {
    let m = require(name); if (m.default && typeof m.default === "object") m = {...m, ...m.default};
    const all = typeof m === "function" ? [["default", m], ...Object.entries(m)] : Object.entries(m);
    for (const [k, f] of all.slice(0, 80)) {
      if (typeof f !== "function" || /exit|kill|abort|wait|listen|serve|prompt|watch/i.test(k)) continue;
      for (const a of args) for (const call of [() => f(...a), () => new f(...a)]) {
        try { const r = call(); if (r && typeof r.then === "function") await Promise.race([r, new Promise(g => setTimeout(g, 50))]); } catch (e) {
          if (!e || !e.message || e.message.length > 900 || e.message === "exit") continue;
          const shape = e.message.replace(/[^a-z]/gi, "").slice(0, 40);
          if (seen.has(shape) || e.constructor === TypeError && seen.size > 2) continue;
          seen.add(shape); out.push([e.code ? String(e.code) : "", e.name || "Error", e.message]);
        }
      }
      if (out.length > 40) break;
    }
  } catch (e) { }
  real("\n@@" + JSON.stringify(out)); setTimeout(() => process.kill(process.pid, 9), 100);
})();
"""

# How a model is told of an exception e of the class k.
WRAPPERS = [
    lambda k, e: e, lambda k, e: f"{k}: {e}", lambda k, e: f"Error: {e}", lambda k, e: f"{k}('{e}')", lambda k, e: f"Tool error ({k}): {e}",
    lambda k, e: f"[tool_error] {e}", lambda k, e: f"Command raised an exception: {k}: {e}", lambda k, e: f"💥 {k}: {e}", lambda k, e: f"FAILED: {e}",
    lambda k, e: f"Exception: {e}", lambda k, e: f"Call failed: {e}", lambda k, e: f"An unexpected error occurred: {e}",
    lambda k, e: f"Sorry, the request could not be completed: {e}", lambda k, e: f"Something went wrong: {e}", lambda k, e: f"Tool returned an error: {e}",
    lambda k, e: f"I encountered an error while trying to use the tool. This was the error: {e}.", lambda k, e: f"Execution error: {e}",
    lambda k, e: f"<tool_error>{k}: {e}</tool_error>", lambda k, e: f"Tool run failed.\n\nDetails: {e}", lambda k, e: f"({k}) {e}",
    lambda k, e: f"Status: failed\nReason: {e}", lambda k, e: f"The operation failed with the following error:\n{e}", lambda k, e: f"ERR {e}",
    lambda k, e: {"tool_result": None, "tool_error": e}, lambda k, e: {"status": "failed", "reason": e}, lambda k, e: {"errors": [{"message": e, "code": k}]},
    lambda k, e: {"__type": f"{k}Exception", "message": e}, lambda k, e: {"error": {"code": 400, "message": e, "status": "INVALID_ARGUMENT"}},
    lambda k, e: {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": e, "reason": "Invalid", "code": 422},
    lambda k, e: {"error": {"message": e, "type": "invalid_request_error", "param": None, "code": None}},
    lambda k, e: {"type": "https://example.org/problems/bad-input", "title": "Bad input", "status": 400, "detail": e, "instance": "/calls/7"},
    lambda k, e: {"data": None, "errors": [{"message": e, "path": ["call"], "locations": [{"line": 1, "column": 3}]}]},
    lambda k, e: {"content": [{"type": "text", "text": e}], "isError": True}, lambda k, e: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": e}},
    lambda k, e: {"ok": False, "error": e}, lambda k, e: {"success": False, "error": {"name": k, "message": e}}, lambda k, e: {"result": "error", "details": e},
    lambda k, e: {"statusCode": 500, "error": "Internal Server Error", "message": e}, lambda k, e: {"name": k, "message": e, "stack": f"{k}: {e}\n    at f (a.js:3:7)"},
    lambda k, e: {"errorType": k, "errorMessage": e, "trace": []}, lambda k, e: {"status": "ERROR", "message": e, "data": {}}, lambda k, e: {"failed": True, "msg": e},
    lambda k, e: {"Error": {"Code": k, "Message": e}, "ResponseMetadata": {"RequestId": "b3", "HTTPStatusCode": 400}}, lambda k, e: {"timestamp": "2024-05-01T10:00:00Z", "status": 500, "error": "Internal Server Error", "path": "/x", "message": e},
]


def stem(*words):
    return int.from_bytes(hashlib.sha256("/".join(words).encode()).digest()[:4], "big")


def alone(argv, folder, seconds=5, env=None):
    """Runs a program without a network, as nobody: its exit status, what it printed, whether all of it went to stdout."""
    if os.geteuid() == 0:
        argv = ["unshare", "-n", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", *argv]
    env = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", **(env or {})}
    try:
        got = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, start_new_session=True)
    except (subprocess.TimeoutExpired, OSError):
        return None, "", False
    text = (got.stdout[:20000] + got.stderr[:20000]).decode("utf-8", "replace").replace(folder, "/home/user/project")
    text = re.sub(r"\b(?:registry\.\w[\w.]*|pypi\.org)", "packages.example", text)
    return got.returncode, re.sub(r"/(?:root|tmp|work)/[^\s:'\")]*/", "/opt/tools/", text), not got.stderr


def room():
    folder = tempfile.mkdtemp(prefix="sweep")
    for name, body in blind.FILES.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
    subprocess.run(["chmod", "-R", "a+rwX", folder], check=True)
    return folder


def program(path):
    name, folder, out = os.path.basename(path), room(), []
    for failed, ways, most in (True, WRONG, 2), (False, FINE, 1):
        kept = []
        for way in sorted(ways, key=lambda w: stem(name, w)):
            code, text, quiet = alone([name, *way.split()], folder, env={"PATH": os.path.dirname(path) + ":" + os.environ["PATH"]})
            if code is None or code < 0 or code in (126, 127) or (code != 0) != failed or not (failed or quiet) or not text.strip() or len(text) > blind.PAGE or "/sweep" in text:
                continue
            if text not in kept:
                kept.append(text)
                out.append(dict(family="programs", group=name, tool="run", arguments={"command": f"{name} {way}".strip()}, text=text, failed=failed))
            if len(kept) == most:
                break
    subprocess.run(["rm", "-rf", folder], check=True)
    return out


def module(job):
    kind, name, argv, env = job
    folder, out = room(), []
    _, text, _ = alone([*argv, name], folder, 40, env)
    said = json.loads(text.split("@@")[-1]) if "@@" in text else []
    subprocess.run(["rm", "-rf", folder], check=True)
    for n, (where, cls, message) in enumerate(sorted(said, key=lambda s: stem(name, s[2]))[:3]):
        for k in range(2):
            wrapped = WRAPPERS[stem(kind, name, str(n), str(k)) % len(WRAPPERS)](cls, message)
            wrapped = wrapped if isinstance(wrapped, str) else json.dumps(wrapped)
            out.append(dict(family=kind, group=name, tool=f"call_{name}", arguments={"n": n}, text=wrapped, failed=True))
    return out


def known():
    names = set()
    for path in blind.HERE.glob("*.jsonl"):
        if not path.name.startswith("sweep"):
            names |= {json.loads(line)["group"] for line in open(path)}
    return names


def jobs(python, modules, folders):
    old, programs = known(), {}
    for folder in folders:
        for path in sorted(pathlib.Path(folder).iterdir()):
            if path.is_file() and os.access(path, os.X_OK) and path.name not in old and not LEFT_OUT.match(path.name) and path.suffix not in (".py", ".cmd", ".ps1"):
                programs.setdefault(path.name, str(path))
    names = json.loads(subprocess.run([python, "-c", "import json, sys, importlib.metadata as m; print(json.dumps(sorted(set(sys.stdlib_module_names) | set(m.packages_distributions()))))"], capture_output=True, check=True).stdout)
    libraries = [("libraries", n, [python, "-c", FUNCTIONS], None) for n in names if not n.startswith("_") and n not in old and n not in ("antigravity", "this", "idlelib", "turtle", "turtledemo", "test")]
    there = subprocess.run(["node", "-p", "require('module').builtinModules.filter(x => !/[_/]/.test(x)).join()"], capture_output=True, text=True, check=True).stdout.strip().split(",")
    there += sorted(json.loads(pathlib.Path(modules, "..", "package.json").read_text())["dependencies"])
    libraries += [("node", n, ["node", "-e", EXPORTS, "x"], {"NODE_PATH": modules}) for n in there if n not in old]
    return [programs[n] for n in sorted(programs, key=stem)[:PROGRAMS]], libraries


def main():
    programs, libraries = jobs(*sys.argv[1:3], sys.argv[3:])
    halves = {"sweep-dev": [], "sweep": []}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for rows in [*pool.map(program, programs), *pool.map(module, libraries)]:
            for r in filter(blind.kept, rows):
                halves[["sweep-dev", "sweep"][stem("sweep", r["group"]) % 2]].append(r)
    for name, rows in halves.items():
        with open(blind.HERE / f"{name}.jsonl", "w") as out:
            for r in rows:
                line = dict(list(r.items())[:2] + [("source", name)] + list(r.items())[2:])
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(name, len(rows), "results,", sum(r["failed"] for r in rows), "failed")


if __name__ == "__main__":
    main()
