"""Makes blind-dev.jsonl and blind.jsonl: further results of tool calls, of programs and libraries that none of the other sets has.

    python3 blind.py [PYTHON]   # one with the packages of LIBRARIES; those that are absent are left out

Programs are run, libraries are made to raise, and web frameworks to answer. Groups (a program, a library, a framework) go to
one half each by a hash of their name. Rules may be made with blind-dev.jsonl; nobody looks at a text of blind.jsonl.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
FILES = {
    "list.txt": "apple 3\npear 5\n", "a.json": '{"a": [1, 2}', "ok.json": '{"error": null, "status": "failed", "jobs": 3}\n',
    "notes.md": "# Errors\n\nError: disk full means that the volume has no room.\nFatal errors end the job.\n",
    "main.c": 'int main(void) { return missing; }\n', "lib.go": "package lib\n\nfunc f() int { return \"a\" }\n",
    "broken.go": "package lib\n\nfunc f( {\n", "A.java": "class A { int f() { return \"x\"; } }\n", "m.proto": "syntax = \"proto3\";\nmessage M { strin a = 1; }\n",
    "err.log": "10:00 ERROR disk full\n10:01 INFO retrying\n10:02 ERROR disk full\n10:03 INFO done\n", "x.tcl": "puts [expr {1 / 0}]\n",
    "build.ninja": "rule cc\n  command = false\nbuild out: cc list.txt\n", "main.rs": "fn main() { let x: i32 = \"a\"; }\n", "b.yml": "a: [1, 2\n",
    "words.py": "class NotFoundError(Exception):\n    pass\n\n\nraise_error = 'Error: nothing'\n",
    "Cargo.toml": "[package]\nname = \"a\"\nversion = \"x\"\n", "empty": "", "dir/x": "1\n",
}

# What has to end with a failure, and what must not: the program's own exit status decides, and a line that ends otherwise than
# it says is left out.
FAILING = """
column --frob list.txt
cut -f list.txt
cut list.txt
date -d 'the day after never'
date --frobnicate
dd if=missing of=/dev/null
dd if=list.txt of=/nowhere/x
dpkg -i missing.deb
dpkg -L frobnicate
dpkg -s frobnicate
file --frob
getent frobnicate x
gpg --decrypt missing.gpg
gpg --list-keys nobody@example.org
hexdump missing
hexdump --frob
join list.txt missing
ln -s a/b/c list.txt
ln missing there
lsblk /dev/frobnicate
mount /dev/frobnicate /mnt
mount nothing
nl missing
od -t q list.txt
od missing
paste missing list.txt
pkg-config --cflags frobnicate
readlink -f --frob
realpath missing/x
rmdir dir
rmdir missing
seq one
seq
sha256sum missing
sha256sum -c list.txt
shuf -n x list.txt
shuf missing
split missing
split -b 0 list.txt
stat missing
tac missing
tee /nowhere/x < list.txt
timeout x true
timeout
touch /nowhere/x
touch
tr
tr a
truncate list.txt
truncate -s x list.txt
tsort dir
uniq missing
uniq -f x list.txt
xz -d list.txt
xz missing
xz -t list.txt
bzip2 -d list.txt
bzip2 -t list.txt
zstd -d list.txt
zstd missing
mktemp /nowhere/XXXX
mktemp x
numfmt --from=si abc
numfmt --to=q 12
factor -- -x
factor apple
expr 1 +
expr a / b
expr 1 / 0
chown nobodyatall list.txt
chown root missing
cmp list.txt missing
comm list.txt missing
csplit list.txt 99
csplit missing 1
fallocate -l x f
fmt missing
fmt -w x list.txt
fold -w x list.txt
fold missing
getopt
getopt -o a -- -b
id nobodyatall
install missing there
install list.txt /nowhere/x
mkfifo /nowhere/x
mkfifo list.txt
nohup frobnicate
nohup
pr missing
su nobodyatall -c true
useradd ''
useradd root
ld missing.o
ld
nm missing
nm list.txt
strip list.txt
strip missing
as list.txt -o x.o
as missing
objcopy missing x
objcopy list.txt
ninja
ninja frobnicate
ninja -f missing
gofmt broken.go
gofmt missing.go
cargo build
cargo frobnicate
cargo run --bin x
rustc main.rs
rustc missing.rs
rustc --frob
javac A.java
javac Missing.java
javac --frob A.java
yq .a a.json
yq .a missing.yml
yq '.a | frob' ok.json
ed missing < /dev/null
ex -s missing -c 'frobnicate' -c 'cq' < /dev/null
tput frobnicate
tput
loginctl list-sessions
loginctl frobnicate
journalctl --frob
journalctl -u x --since never
tclsh x.tcl
tclsh missing.tcl
mawk '{ print $1'
mawk '{ frob( }' list.txt
mawk 1 missing
protoc m.proto --cpp_out=.
protoc missing.proto --cpp_out=.
protoc
sqlite3 x.db 'select * from missing'
sqlite3 x.db 'selec 1'
sqlite3 /nowhere/x.db 'select 1'
ssh-keygen -f missing -y
ssh-keygen -t frob
ssh-keygen -lf list.txt
logger --frob
less missing
python3 -m json.tool a.json
python3 -m json.tool missing
python3 -m zipfile -l list.txt
python3 -m tarfile -l list.txt
python3 -m frobnicate
python3 -m gzip -d list.txt
python3 -m py_compile words.p
go vet lib.go
go frobnicate
go run missing.go
go test ./missing
curl -s -S telnet:// 
curl --frob
curl -sS http://127.0.0.1:9/
git frobnicate
ss --frob
stty -F /dev/frobnicate
vi --frob
"""
FINE = """
column -t list.txt
cut -d' ' -f1 notes.md
date -u -d 2024-05-01
dpkg -l | head -5
dpkg -S /bin/ls
dpkg --help
file list.txt notes.md
getent passwd root
gpg --version
hexdump -C notes.md
nl notes.md
od -c notes.md
paste notes.md notes.md
pkg-config --list-all | head
readlink -f list.txt
seq 3
sha256sum notes.md
sort err.log | uniq -c
tac err.log
tac notes.md
tee copy.md < notes.md
tr a-z A-Z < notes.md
tr -d '\\n' < notes.md
uniq -c err.log
xz --help
xz -k notes.md
zstd --help
zstd -q notes.md
numfmt --help
factor 12
expr 3 + 4
cmp notes.md notes.md
cmp list.txt notes.md || true
comm list.txt list.txt
fmt notes.md
fold -w 20 notes.md
getopt --help
id
install --help
pr -T notes.md
useradd --help
ld --help
nm --help
strip --help
objcopy --help
ninja -h || true
ninja -t targets
cargo --help
cargo --list
rustc --explain E0308
rustc --explain E0499
rustc --help
javac --help
yq . ok.json
yq .error ok.json
tput cols
journalctl --help
tclsh << 'X'
mawk '/ERROR/' err.log
mawk '/ERROR/ { n++ } END { print n, "errors" }' err.log
protoc --help
sqlite3 :memory: "select 'Error: none', 3"
sqlite3 -header :memory: "select 'failed' as status, 'disk full' as error"
ssh-keygen -A || true
less notes.md
less err.log
python3 -m json.tool ok.json
python3 -m pydoc builtins.ValueError | head -40
python3 -m pydoc errno | head -40
python3 -m this
go doc errors
go doc errors.Is
go help build
go doc io.EOF
git help -a | head -40
curl --help
ss -h
vi --version
date --help
dd --help
dd if=list.txt of=copy.txt
timeout --help
stat list.txt
stat --help
split --help
mktemp --help
touch new.txt
truncate -s 10 new.bin
ln -s list.txt link
rmdir dir || true
realpath list.txt
"""

# Expressions of Python that raise, a library or module each; the last word names the group.
LIBRARIES = """
__import__("email").message_from_bytes("x")  # email
__import__("argparse").ArgumentParser(exit_on_error=False).parse_args(["--n"])  # argparse
__import__("csv").reader(3)  # csv
next(__import__("csv").reader(["a"], strict=True, delimiter="ab"))  # csv
__import__("pickle").loads(b"abc")  # pickle
__import__("zoneinfo").ZoneInfo("Mars/Base")  # zoneinfo
__import__("fractions").Fraction("a/b")  # fractions
__import__("statistics").mean([])  # statistics
__import__("struct").unpack("<I", b"a")  # struct
__import__("shlex").split("a 'b")  # shlex
__import__("shutil").copy("missing.txt", "x")  # shutil
__import__("shutil").rmtree("/nowhere")  # shutil
__import__("ssl").create_default_context(cafile="missing.pem")  # ssl
__import__("smtplib").SMTP("127.0.0.1", 9)  # smtplib
__import__("ftplib").FTP("127.0.0.1")  # ftplib
__import__("socket").getaddrinfo("nowhere.invalid", 80)  # socket
__import__("tomllib").loads("a = ")  # tomllib2
__import__("xml.etree.ElementTree").etree.ElementTree.fromstring("<a>")  # etree
__import__("wave").open("missing.wav")  # wave
__import__("zlib").decompress(b"abc")  # zlib
__import__("lzma").decompress(b"abc")  # lzma
__import__("bz2").decompress(b"abc")  # bz2
__import__("queue").Queue().get(timeout=0.01)  # queue
__import__("asyncio").run(__import__("asyncio").wait_for(__import__("asyncio").sleep(9), 0.01))  # asyncio
__import__("plistlib").loads(b"x")  # plistlib
__import__("locale").setlocale(0, "xx_XX")  # locale
__import__("unicodedata").lookup("NOTHING")  # unicodedata
__import__("ctypes").CDLL("libnothing.so")  # ctypes
__import__("pathlib").Path("missing").read_text()  # pathlib
__import__("pathlib").Path("/").write_text("x")  # pathlib
__import__("heapq").heappop([])  # heapq
__import__("random").choice([])  # random
__import__("inspect").getsource(3)  # inspect
__import__("imaplib").IMAP4("127.0.0.1")  # imaplib
__import__("xmlrpc.client").client.ServerProxy("http://127.0.0.1:9").f()  # xmlrpc
__import__("graphlib").TopologicalSorter({1: [2], 2: [1]}).prepare()  # graphlib
__import__("string").Template("$a $b").substitute(a=1)  # string
__import__("operator").attrgetter("x")(3)  # operator
__import__("calendar").monthrange(2024, 13)  # calendar
__import__("hashlib").new("frob")  # hashlib
__import__("marshmallow").Schema.from_dict({"a": __import__("marshmallow").fields.Int(required=True)})().load({"a": "x", "b": 1})  # marshmallow
__import__("voluptuous").Schema({"a": int})({"a": "x"})  # voluptuous
__import__("jwt").decode("abc", "k", ["HS256"])  # jwt
__import__("peewee").SqliteDatabase(":memory:").execute_sql("select * from missing")  # peewee
__import__("docopt").docopt("Usage: x <a>", argv=["--b"])  # docopt
__import__("openpyxl").load_workbook("missing.xlsx")  # openpyxl
__import__("openpyxl").load_workbook("list.txt")  # openpyxl
__import__("networkx").shortest_path(__import__("networkx").Graph([(1, 2)]), 1, 3)  # networkx
__import__("networkx").bfs_tree(__import__("networkx").Graph(), 1)  # networkx
__import__("sympy").sympify("1 +* 2")  # sympy
__import__("PIL.Image").Image.open("list.txt")  # pillow
__import__("PIL.Image").Image.new("RGB", (-1, 2))  # pillow
__import__("numpy").zeros(3) + __import__("numpy").zeros(4)  # numpy
__import__("numpy").linalg.inv([[0, 0], [0, 0]])  # numpy
__import__("numpy").array([1, 2]).reshape(3)  # numpy
__import__("docker").from_env().containers.list()  # docker-sdk
__import__("paramiko").RSAKey.from_private_key_file("missing")  # paramiko
__import__("dateutil.parser").parser.parse("the day after never")  # dateutil
__import__("pint").UnitRegistry()("3 frobs")  # pint
__import__("pint").UnitRegistry()("3 m").to("s")  # pint
__import__("django.core.validators").core.validators.validate_email("x")  # django-core
__import__("flask").Flask("x").url_map.bind("h").match("/x")  # flask-core
__import__("typer").BadParameter("must be positive")._nothing  # typer
__import__("mcp").types.Tool.model_validate({"name": 3})  # mcp
__import__("bottle").Bottle().match({"PATH_INFO": "/x", "REQUEST_METHOD": "GET"})  # bottle-core
__import__("falcon").testing.simulate_get(3)  # falcon-core
"""

# How agents' tools tell a model of an exception.
WRAPPERS = [
    lambda e: f"{type(e).__name__}: {e}", lambda e: {"error": str(e)}, lambda e: f"Error: {e}",
    lambda e: {"success": False, "message": str(e)}, lambda e: repr(e), lambda e: f"Tool call failed with {type(e).__name__}: {e}",
    lambda e: {"status": "error", "error": {"type": type(e).__name__, "message": str(e)}},
    lambda e: [{"type": "text", "text": f"Error executing tool: {e}"}], lambda e: {"isError": True, "content": [{"type": "text", "text": str(e)}]},
    lambda e: {"ok": False, "error_message": str(e), "data": None}, lambda e: f"Failed to run the tool: {e}", lambda e: {"exception": f"{type(e).__name__}({e})"},
]

# Bodies of web frameworks: (group, failed, program that prints one).
SERVERS = [
    ("flask", True, 'import flask; a = flask.Flask("x"); print(a.test_client().get("/x").text)'),
    ("flask", True, 'import flask; a = flask.Flask("x"); a.add_url_rule("/x", view_func=lambda: 1/0); a.testing = False; print(a.test_client().get("/x").text)'),
    ("flask", True, 'import flask; a = flask.Flask("x"); a.add_url_rule("/x", view_func=lambda: "", methods=["POST"]); print(a.test_client().get("/x").text)'),
    ("flask", True, 'import flask; a = flask.Flask("x"); a.add_url_rule("/x", view_func=lambda: str(flask.request.get_json()), methods=["POST"]); print(a.test_client().post("/x", data="{").text)'),
    ("falcon", True, 'import falcon, falcon.testing; print(falcon.testing.TestClient(falcon.App()).simulate_get("/x").text)'),
    ("falcon", True, 'import falcon, falcon.testing\nclass R:\n    def on_get(self, q, s): raise falcon.HTTPInvalidParam("must be a number", "n")\na = falcon.App(); a.add_route("/x", R()); print(falcon.testing.TestClient(a).simulate_get("/x").text)'),
    ("falcon", True, 'import falcon, falcon.testing\nclass R:\n    def on_get(self, q, s): q.get_media()\na = falcon.App(); a.add_route("/x", R()); print(falcon.testing.TestClient(a).simulate_get("/x").text)'),
    ("falcon", False, 'import falcon, falcon.testing\nclass R:\n    def on_get(self, q, s): s.media = {"errors": [], "title": "Error handling", "description": "404 pages"}\na = falcon.App(); a.add_route("/x", R()); print(falcon.testing.TestClient(a).simulate_get("/x").text)'),
    ("bottle", True, 'import bottle; print(bottle.HTTPError(404, "Not found: \'/x\'").body)'),
    ("bottle", True, 'import bottle; a = bottle.Bottle(); print(b"".join(a({"PATH_INFO": "/x", "REQUEST_METHOD": "GET", "wsgi.errors": __import__("io").StringIO()}, lambda *x: None)).decode())'),
    ("django", True, 'import django.conf; django.conf.settings.configure(ROOT_URLCONF="x", ALLOWED_HOSTS=["*"]); import django.views.defaults as d, django.test; print(d.page_not_found(django.test.RequestFactory().get("/x"), Exception()).content.decode())'),
    ("django", True, 'import django.conf; django.conf.settings.configure(ROOT_URLCONF="x", ALLOWED_HOSTS=["*"]); import django.views.defaults as d, django.test; print(d.server_error(django.test.RequestFactory().get("/x")).content.decode())'),
    ("django", True, 'import django.conf; django.conf.settings.configure(ROOT_URLCONF="x", ALLOWED_HOSTS=["*"]); import django.views.defaults as d, django.test; print(d.permission_denied(django.test.RequestFactory().get("/x"), Exception()).content.decode())'),
    ("tornado", True, 'import tornado.httputil as h, tornado.web as w; print("<html><title>404: Not Found</title><body>404: Not Found</body></html>")'),
    ("http.server", True, 'import http.server as h; print(h.DEFAULT_ERROR_MESSAGE % {"code": 404, "message": "File not found", "explain": "Nothing matches the given URI"})'),
]


# Licences, and manuals of more than a page, are others' texts: such a result is not kept.
THEIRS = re.compile(r"copyright|\(c\) (?:19|20)\d\d|licen[sc]e|warranty", re.IGNORECASE)
PAGE = 3000


def kept(r):
    return not THEIRS.search(r["text"]) and (r["failed"] or len(r["text"]) <= PAGE)


def run(command, python=None):
    with tempfile.TemporaryDirectory(prefix="blind") as folder:
        for name, body in FILES.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        env = dict(os.environ, HOME=folder, LC_ALL="C.UTF-8", TERM="dumb", NO_COLOR="1", PAGER="cat", GOFLAGS="", GOTOOLCHAIN="local",
                   CARGO_HOME=os.path.expanduser("~/.cargo"), RUSTUP_HOME=os.path.expanduser("~/.rustup"), PYTHONDONTWRITEBYTECODE="1",
                   GOCACHE=os.path.join(folder, ".cache"), CARGO_TERM_COLOR="never")
        argv = [python, "-c", command] if python else ["bash", "-c", command]
        try:
            got = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        except subprocess.TimeoutExpired:
            return None, ""
        text = (got.stdout + got.stderr).decode("utf-8", "replace").replace(folder, "/home/user/project")
        text = re.sub(r"/(?:root|tmp|work)[^\s:'\")]*/", "/opt/tools/", text)
        return got.returncode, text[:6000]


def results(python):
    for lines, failed in (FAILING, True), (FINE, False):
        for command in filter(None, lines.strip().splitlines()):
            if "<<" in command:
                continue
            code, text = run(command)
            if code is None or code in (126, 127) or (code != 0) != failed or not text.strip():
                continue
            group = command.split()[0] if not command.startswith("python3 -m") else "python-" + command.split()[2]
            yield dict(family="programs", group=group, tool="run", arguments={"command": command}, text=text, failed=failed)
    shown = 0
    for line in filter(None, LIBRARIES.strip().splitlines()):
        body, group = line.rsplit("  # ", 1)
        code = ("import json, sys, warnings; warnings.simplefilter('ignore')\ntry:\n    %s\nexcept ModuleNotFoundError as e:\n    sys.exit(9)\n"
                "except BaseException as e:\n    print(json.dumps([type(e).__name__, str(e), repr(e)]))\nelse:\n    sys.exit(8)\n" % body)
        status, text = run(code, python)
        if status != 0:
            continue
        name, said, shape = json.loads(next(x for x in text.splitlines() if x.startswith('["')))
        error = type(name, (Exception,), {"__str__": lambda e: said, "__repr__": lambda e: shape})()
        for k in range(2):
            wrapped = WRAPPERS[(shown + k * 5) % len(WRAPPERS)](error)
            wrapped = wrapped if isinstance(wrapped, str) else json.dumps(wrapped)
            yield dict(family="libraries", group=group, tool=f"call_{group}", arguments={"n": k}, text=wrapped, failed=True)
        shown += 1
    for group, failed, code in SERVERS:
        status, text = run(code, python)
        if status == 0 and text.strip():
            yield dict(family="servers", group=group, tool="fetch", arguments={"url": "http://127.0.0.1/x"}, text=text, failed=failed)


def main():
    halves = {"blind-dev": [], "blind": []}
    for r in filter(kept, results(sys.argv[1] if len(sys.argv) > 1 else sys.executable)):
        half = hashlib.sha256(f"{r['family']}/{r['group']}".encode()).digest()[0] % 2
        halves[["blind-dev", "blind"][half]].append(r)
    for name, rows in halves.items():
        with open(HERE / f"{name}.jsonl", "w") as out:
            for r in rows:
                out.write(json.dumps(dict(list(r.items())[:2] + [("source", name)] + list(r.items())[2:]), ensure_ascii=False) + "\n")
        print(name, len(rows), "results,", sum(r["failed"] for r in rows), "failed")


if __name__ == "__main__":
    main()
