"""Makes strangers-dev.jsonl and strangers.jsonl: results of tool calls, of programs and libraries that no set before has.

    python3 strangers.py [PYTHON]   # one with the packages of LIBRARIES; those that are absent are left out

The same ways as in blind.py, with other programs, libraries, web frameworks and wrappers, and with documents: modules and pages
of those libraries that are about errors. Groups go to one half each by a hash of their name. Rules may be made with
strangers-dev.jsonl; nobody looks at a text of strangers.jsonl.
"""

import re
import hashlib
import json
import sys
import traceback

import blind

FAILING = """
agetty --frob
arp --frob
b2sum missing
b2sum --frob
b2sum -c list.txt
base32 -d list.txt
base32 missing
basenc list.txt
basenc --frob
blkid /dev/frobnicate
bridge frob
busctl frobnicate
capsh --frob=1
chage -l nobodyatall
chattr +i missing
chrt 1
chrt --frob
chsh -s /nowhere/sh
cksum missing
cksum -a frob list.txt
col --frob
corepack frobnicate
cpack
cpack -G FROB
cpp missing.c
cpp main.h
createdb -h 127.0.0.1 -p 9 x
ctags missing
ctags --frob
ctest --frob
ctest -S missing.cmake
dircolors missing
dircolors list.txt
debugfs -R ls missing
diff3 a b
diff3 list.txt missing list.txt
docker frobnicate
dumpe2fs missing
e2label missing
envsubst --frob
faillog --frob
fincore missing
findmnt --frob
flock
flock missing/x true
fsck.ext4 -n missing
gcov missing
gcov --frob
gdbus call
gdbus frobnicate
gencat out list.txt
getcap missing
getconf FROBNICATE
gio cat missing
gio frobnicate
gold missing.o
gprof
gprof missing
gpgconf --frob
groff -Tfrob notes.md
groups nobodyatall
hd missing
hostid --frob
hostnamectl frobnicate
infocmp frobterm
initdb -D /nowhere/x
ionice -c 9 true
ipcrm -m 999
jar tf list.txt
jar xf missing.jar
jarsigner missing.jar a
javap Missing
jdeps Missing.jar
jlink
jlink --add-modules frob --output x
jmap 999999
jps --frob
jstack 999999
keytool -list -keystore missing
keytool -frob
keytool -printcert -file list.txt
kpt frobnicate
last --frob
ldd missing
ldd list.txt
llc list.txt
llc missing
lli list.txt
llvm-ar r
llvm-ar t missing.a
llvm-as list.txt
llvm-dis list.txt
llvm-dis missing
llvm-cov show missing
llvm-dwarfdump missing
llvm-link missing.bc
llvm-objdump -d list.txt
llvm-profdata show missing
llvm-profdata merge
llvm-readobj list.txt
locale --frob
localedef --frob
localedef -i missing -f UTF-8 x
losetup missing
lsattr missing
lscpu --frob
lsof -p frob
lsns 999999
lz4 -d list.txt
lz4 missing
lzmainfo list.txt
mandb --frob
md5sum missing
md5sum -c list.txt
mesg frob
mke2fs missing
mknod x frob
mkswap missing
more missing
more --frob
mountpoint missing
msgcat missing
msgfmt list.txt
msgfmt missing
munge --frob
mvn frobnicate
naga missing.wgsl
naga --frob
naga list.txt
namei missing
networkctl frobnicate
nproc --frob
npx --no-install frobnicate
nsenter -t 999999 true
nstat --frob
opt list.txt -S
opt missing
osslsigncode verify missing
pathchk -p 'a b*'
pathchk missing/../list.txt/x
perldoc -f frobnicate
perldoc Frob::Nicate
pg_ctl status -D missing
pg_dump -h 127.0.0.1 -p 9 x
pg_isready -h 127.0.0.1 -p 9
pg_restore list.txt
pg_restore missing
pgbench -h 127.0.0.1 -p 9
pidof --frob
pinky --frob
png-fix-itxt missing
postgres -D missing
prlimit --pid 999999
prlimit --frob
prove missing.t
prove list.txt
ptx missing
pygmentize -l frob notes.md
pygmentize missing.py
qemu-aarch64 list.txt
qemu-aarch64 missing
rename.ul a
renice 5
renice 5 999999
rev missing
rpcgen missing.x
runuser -u nobodyatall true
sbatch missing.sh
scalar frobnicate
sdiff list.txt
sdiff list.txt missing
setpriv --frob
setsid --frob
sha1sum missing
sha1sum -c notes.md
shasum missing
shasum -a 7 list.txt
shred missing
sinfo
size list.txt
size missing
skill frob
slabtop --frob
sprof missing
ssh-add missing
ssh-keyscan
stdbuf -o x true
strings missing
sum missing
swapon missing
swapon list.txt
sysctl frob.nicate
sysctl -w kernel.frob=1
systemd-analyze frobnicate
systemd-analyze verify missing.service
systemd-escape
systemd-path frob
systemd-run --frob
tabs frob
taskset
taskset -p 999999
taskset frob true
tbl missing
tc frob
tc qdisc show dev frob0
tempfile --frob
tic missing
tmux frobnicate
tmux attach
toe missing
tomlq . a.json
torchrun missing.py
troff missing
tset frobterm
tune2fs -l missing
udevadm frob
umount /nowhere
unexpand missing
unlink missing
unlink dir
unshare --frob
uuidgen --frob
usermod nobodyatall -L
vacuumdb -h 127.0.0.1 -p 9 x
valgrind missing
valgrind --frob=1 true
vmstat frob
vmstat 1 2 3 4
watch
wdctl /dev/frob
whatis frobnicate
whereis --frob
wish x.tcl
w --frob
xgettext missing.c
xgettext --frob
xxd missing
xxd -r -p --frob
yaml2obj a.json
yaml2obj missing
zdump --frob
zgrep x missing
zipinfo list.txt
zipinfo missing.zip
zipnote missing.zip
zipsplit list.txt
zless missing
zmore missing
"""
FINE = """
b2sum notes.md
base32 list.txt
basenc --base16 list.txt
blkid --help
capsh --print
chrt --help
cksum notes.md
ctest --help
cpack --help
dircolors -p
docker --help
envsubst < notes.md
findmnt --help
flock --help
gdbus help
getconf -a | head -20
gio help
groff -Tascii notes.md
groups root
hd notes.md
hostnamectl --help
infocmp xterm | head
jar --help
jarsigner -help
javap java.lang.Error
javap java.lang.Exception
jlink --help
jps -help
keytool -help
ldd /bin/ls
llc --version
llvm-ar --help
llvm-objdump --help
llvm-profdata --help
localedef --help
lscpu | head
lz4 -k notes.md
lz4 --help
md5sum notes.md list.txt
more notes.md
msgfmt --help
mvn --help
naga --help
nproc
opt --help | head -60
osslsigncode --help
perldoc -f die
perldoc -f eval
perldoc -f warn
perldoc -T Carp | head -80
pg_dump --help
pg_isready --help
pg_restore --help
pgbench --help
postgres --help
prlimit
prove --help
pygmentize -L lexers | head -40
pygmentize notes.md
qemu-aarch64 -help | head -60
rev list.txt
rev notes.md
sha1sum notes.md
shasum notes.md
shred --help
size /bin/ls
strings notes.md
strings /usr/bin/unzip | grep -i error | head -40
strings /usr/bin/file | grep -i fail | head -40
sum notes.md
systemd-analyze --help
systemd-escape 'a b'
systemd-path | head
tabs -8 > out.txt && cat err.log
taskset --help
tic -V
tmux -V
unexpand notes.md
uuidgen --help
valgrind --help
vmstat -h
whereis ls
xgettext --help
xxd notes.md
zdump UTC
zipinfo -h
watch --help
"""

LIBRARIES = """
__import__("cattrs").structure({"a": "x"}, __import__("attr").make_class("A", {"a": __import__("attr").ib(type=int)}))  # cattrs
__import__("cattrs").structure("x", int)  # cattrs
__import__("msgspec").json.decode(b"{")  # msgspec
__import__("msgspec").json.decode(b'{"a": 1}', type=list)  # msgspec
__import__("msgspec").convert({"n": "x"}, __import__("msgspec").defstruct("P", [("n", int)]))  # msgspec
__import__("arrow").get("the day after never")  # arrow
__import__("arrow").get("2024-13-01")  # arrow
__import__("pendulum").parse("soon")  # pendulum
__import__("pendulum").timezone("Mars/Base")  # pendulum
__import__("babel").Locale.parse("xx_XX")  # babel
__import__("babel.numbers").numbers.parse_decimal("a1", locale="en")  # babel
__import__("phonenumbers").parse("abc", "DE")  # phonenumbers
__import__("jmespath").search("a[", {})  # jmespath
__import__("jmespath").search("frob(a)", {})  # jmespath
__import__("lark").Lark("start: 'a' 'b'").parse("ac")  # lark
__import__("lark").Lark("start: a")  # lark
__import__("pyparsing").Word("abc").parse_string("123")  # pyparsing
__import__("ruamel.yaml").yaml.YAML().load("a: [1")  # ruamel
__import__("ruamel.yaml").yaml.YAML().load("a: 1\\na: 2")  # ruamel
__import__("cryptography.fernet").fernet.Fernet(b"x")  # cryptography
__import__("cryptography.x509").x509.load_pem_x509_certificate(b"x")  # cryptography
__import__("pycountry").countries.lookup("Atlantis")  # pycountry
__import__("polars").DataFrame({"a": [1]})["b"]  # polars
__import__("polars").DataFrame({"a": [1], "b": [1, 2]})  # polars
__import__("polars").read_csv("missing.csv")  # polars
__import__("polars").DataFrame({"a": ["x"]}).select(__import__("polars").col("a").cast(int))  # polars
__import__("scipy.optimize").optimize.brentq(lambda x: x + 5, 0, 1)  # scipy
__import__("scipy.linalg").linalg.cholesky([[1, 2], [2, 1]])  # scipy
__import__("h5py").File("missing.h5", "r")  # h5py
__import__("h5py").File("list.txt", "r")  # h5py
__import__("msgpack").unpackb(b"\\xc1")  # msgpack
__import__("msgpack").packb(object())  # msgpack
__import__("orjson").loads("{")  # orjson
__import__("orjson").dumps({1: object()})  # orjson
__import__("cbor2").loads(b"\\xff")  # cbor2
__import__("configobj").ConfigObj(["[a"])  # configobj
__import__("sqlglot").parse_one("select from where")  # sqlglot
__import__("sqlglot.optimizer").optimizer.optimize("select x.y from t")  # sqlglot
__import__("psutil").Process(999999)  # psutil
__import__("fsspec").filesystem("frob")  # fsspec
__import__("fsspec").open("missing.txt").open()  # fsspec
__import__("websockets.sync.client").sync.client.connect("ws://127.0.0.1:9")  # websockets
__import__("websockets.sync.client").sync.client.connect("http://x")  # websockets
__import__("pymysql").connect(host="127.0.0.1", port=9)  # pymysql-lib
__import__("elasticsearch").Elasticsearch("http://127.0.0.1:9", max_retries=0).info()  # elasticsearch
__import__("elasticsearch").Elasticsearch("nowhere")  # elasticsearch
__import__("pika").BlockingConnection(__import__("pika").URLParameters("amqp://127.0.0.1:9/"))  # pika
__import__("shapely").from_wkt("POINT (1")  # shapely
__import__("pyproj").CRS("EPSG:999999")  # pyproj
__import__("croniter").croniter("61 * * * *")  # croniter
__import__("croniter").croniter("a b c")  # croniter
__import__("jsonpatch").apply_patch({}, [{"op": "remove", "path": "/a"}])  # jsonpatch
__import__("jsonpatch").apply_patch({}, [{"op": "frob", "path": "/a"}])  # jsonpatch
__import__("xmltodict").parse("<a>")  # xmltodict
__import__("cssselect").HTMLTranslator().css_to_xpath("a[")  # cssselect
__import__("mako.template").template.Template("${x.y}").render()  # mako
__import__("mako.template").template.Template("% if x:").render()  # mako
__import__("semver").Version.parse("1.x")  # semver
__import__("packaging.version").version.Version("one")  # packaging
__import__("packaging.requirements").requirements.Requirement("a ==")  # packaging
__import__("typeguard").check_type("a", int)  # typeguard
__import__("beartype.door").door.die_if_unbearable("a", int)  # beartype
__import__("zeep").Client("http://127.0.0.1:9/x?wsdl")  # zeep
__import__("zeep").Client("missing.wsdl")  # zeep
__import__("trimesh").load("missing.stl")  # trimesh
__import__("sh").frobnicate()  # sh-lib
__import__("sh").ls("missing")  # sh-lib
__import__("plumbum").local["frobnicate"]()  # plumbum
__import__("plumbum").local["ls"]("missing")  # plumbum
__import__("celery").Celery(broker="redis://127.0.0.1:9").send_task("x", retry=False)  # celery
__import__("celery").Celery().tasks["frob"]  # celery
__import__("decimal").Decimal("x")  # decimal
__import__("array").array("i", ["a"])  # array
__import__("bisect").insort(3, 1)  # bisect
__import__("codecs").lookup("frob")  # codecs
__import__("datetime").date(2024, 2, 30)  # datetime
__import__("datetime").datetime.fromisoformat("soon")  # datetime
__import__("enum").Enum("E", "A B")("C")  # enum
__import__("getopt").getopt(["--frob"], "a")  # getopt-lib
__import__("glob").glob(3)  # glob
__import__("importlib").import_module("frob.nicate")  # importlib
__import__("ipaddress").ip_network("10.0.0.1/8")  # ipaddress
__import__("itertools").combinations([1], -1)  # itertools
__import__("mailbox").Maildir("missing", create=False)  # mailbox
__import__("math").factorial(-1)  # math
__import__("mmap").mmap(-1, 0)  # mmap
__import__("netrc").netrc("missing")  # netrc
__import__("os").rename("missing", "x")  # os
__import__("os").kill(999999, 9)  # os
__import__("platform").freedesktop_os_release.__get__  # platform
__import__("sched").scheduler().cancel(3)  # sched
__import__("secrets").choice([])  # secrets
__import__("select").select([99], [], [])  # select
__import__("signal").signal(99, None)  # signal
__import__("tempfile").mkstemp(dir="/nowhere")  # tempfile
__import__("textwrap").wrap("abc", 0)  # textwrap
__import__("threading").Lock().release()  # threading
__import__("uuid").UUID("x")  # uuid
__import__("weakref").ref(3)  # weakref
__import__("zipimport").zipimporter("missing.zip")  # zipimport
__import__("concurrent.futures").futures.Future().result(0)  # futures
__import__("contextlib").ExitStack().push(3).__enter__()  # contextlib
__import__("copy").deepcopy(__import__("threading").Lock())  # copy
__import__("dbm").open("missing")  # dbm
__import__("fnmatch").fnmatch("a", 3)  # fnmatch
__import__("gettext").translation("frob")  # gettext-lib
__import__("html.parser").parser.HTMLParser().feed(3)  # html
__import__("http.client").client.HTTPConnection("127.0.0.1", 9).connect()  # httpclient
__import__("keyword").iskeyword([])  # keyword
__import__("linecache").getlines(3)  # linecache
__import__("logging.config").config.dictConfig({})  # logging
__import__("poplib").POP3("127.0.0.1", 9)  # poplib
__import__("pprint").pprint(1, width=0)  # pprint
__import__("re").compile("(a")  # re-lib
__import__("runpy").run_module("frob.nicate")  # runpy
__import__("sqlite3").connect("/nowhere/x")  # sqlite-lib
__import__("telnetlib3").x  # telnetlib
__import__("types").ModuleType(3)  # types
__import__("urllib.request").request.urlopen("frob://x")  # urllib-req
"""


def traced(error):
    """As a tool hands on what Python prints of an exception."""
    return "".join(traceback.format_exception(error))


# Ways to tell a model of an exception that no other set has.
WRAPPERS = [
    lambda e: str(e), traced,
    lambda e: {"type": "about:blank", "title": "Internal Server Error", "status": 500, "detail": str(e)},
    lambda e: {"jsonrpc": "2.0", "id": 4, "error": {"code": -32603, "message": str(e)}},
    lambda e: f"[ERROR] {e}", lambda e: f"<error>{e}</error>", lambda e: f"The function raised {type(e).__name__}: {e}",
    lambda e: {"result": None, "error": str(e)}, lambda e: f"Action failed: {e}",
    lambda e: {"type": "error", "error": {"type": "api_error", "message": str(e)}},
    lambda e: f"Unexpected {type(e).__name__}: {e}", lambda e: {"is_success": False, "reason": str(e)},
    lambda e: [{"type": "text", "text": f"{type(e).__name__}: {e}"}],
    lambda e: f"⚠️ {type(e).__name__}: {e}", lambda e: {"code": 1, "msg": str(e), "data": None},
    lambda e: f"Observation: Error: {e}", lambda e: {"output": "", "stderr": traced(e), "exit_code": 1},
]

SERVERS = [
    ("starlette", True, "import starlette.applications as s, starlette.testclient as t; print(t.TestClient(s.Starlette()).get('/x').text)"),
    ("litestar", True, "import litestar, litestar.testing as t; print(t.TestClient(litestar.Litestar([])).get('/x').text)"),
    ("litestar", True, "import litestar, litestar.testing as t\\n@litestar.get('/x')\\nasync def f(n: int) -> int: return n\\nprint(t.TestClient(litestar.Litestar([f])).get('/x?n=a').text)"),
    ("litestar", True, "import litestar, litestar.testing as t\\n@litestar.get('/x')\\nasync def f() -> int: raise litestar.exceptions.PermissionDeniedException('not yours')\\nprint(t.TestClient(litestar.Litestar([f])).get('/x').text)"),
    ("litestar", False, "import litestar, litestar.testing as t\\n@litestar.get('/x')\\nasync def f() -> dict: return {'errors': 0, 'last_error': None, 'status': 'ok'}\\nprint(t.TestClient(litestar.Litestar([f])).get('/x').text)"),
    ("quart", True, "import asyncio, quart; a = quart.Quart('x')\\nasync def m(): print(await (await a.test_client().get('/x')).get_data(as_text=True))\\nasyncio.run(m())"),
    ("quart", True, "import asyncio, quart; a = quart.Quart('x')\\na.add_url_rule('/x', view_func=lambda: '', methods=['POST'])\\nasync def m(): print(await (await a.test_client().get('/x')).get_data(as_text=True))\\nasyncio.run(m())"),
    ("wsgiref", True, "import io, wsgiref.handlers as h, wsgiref.util as u; e = {}; u.setup_testing_defaults(e); o = io.BytesIO()\\ndef a(e, s): raise ValueError('x')\\nh.SimpleHandler(io.BytesIO(), o, io.StringIO(), e).run(a); print(o.getvalue().decode().split('\\\\r\\\\n\\\\r\\\\n')[1])"),
    ("xmlrpc-server", True, "import xmlrpc.server as x; print(x.SimpleXMLRPCDispatcher()._marshaled_dispatch(b'<methodCall><methodName>frob</methodName></methodCall>').decode())"),
]

# Modules and pages of the libraries whose names say that they are about errors.
DOCUMENTS = """
import pathlib, site, json
out = []
for folder in site.getsitepackages():
    for p in sorted(pathlib.Path(folder).rglob("*")):
        n = p.name.lower()
        if p.is_file() and p.suffix in (".py", ".pyi", ".rst", ".md", ".txt", ".json") and any(w in n for w in ("error", "exception", "fail", "changelog", "changes", "history", "news")):
            out.append([str(p.relative_to(folder)), p.read_text(errors="replace")[:6000]])
print(json.dumps(out))
"""
MOST_DOCUMENTS = 4  # of a library


def program_results():
    for lines, failed in (FAILING, True), (FINE, False):
        for command in filter(None, lines.strip().splitlines()):
            code, text = blind.run(command)
            if code is None or code in (126, 127) or (code != 0) != failed or not text.strip():
                continue
            yield dict(family="programs", group=command.split()[0], tool="run", arguments={"command": command}, text=text, failed=failed)


def library_results(python):
    shown = 0
    for line in filter(None, LIBRARIES.strip().splitlines()):
        body, group = line.rsplit("  # ", 1)
        code = ("import json, sys, warnings; warnings.simplefilter('ignore')\ntry:\n    %s\nexcept ModuleNotFoundError as e:\n"
                "    if 'frob' not in str(e): sys.exit(9)\n    print(json.dumps([type(e).__name__, str(e)]))\n"
                "except BaseException as e:\n    print(json.dumps([type(e).__name__, str(e)]))\nelse:\n    sys.exit(8)\n" % body)
        status, text = blind.run(code, python)
        said = [x for x in text.splitlines() if x.startswith('["')]
        if status != 0 or not said or not json.loads(said[-1])[1].strip():
            continue
        name, message = json.loads(said[-1])
        error = type(name, (Exception,), {"__str__": lambda e: message, "__module__": "builtins"})()
        for k in range(2):
            wrapped = WRAPPERS[(shown * 2 + k) % len(WRAPPERS)](error)
            wrapped = wrapped if isinstance(wrapped, str) else json.dumps(wrapped)
            yield dict(family="libraries", group=group, tool=f"call_{group}", arguments={"n": k}, text=wrapped, failed=True)
        shown += 1


def results(python):
    yield from program_results()
    yield from library_results(python)
    for group, failed, code in SERVERS:
        status, text = blind.run(code.replace("\\n", "\n").replace("\\\\", "\\"), python)
        if status == 0 and text.strip():
            yield dict(family="servers", group=group, tool="fetch", arguments={"url": "http://127.0.0.1/x"}, text=text, failed=failed)
    seen = {}
    for path, text in json.loads(blind.subprocess.run([python, "-c", DOCUMENTS], capture_output=True, check=True).stdout):
        group = path.split("/")[0].split("-")[0].lower()
        seen[group] = seen.get(group, 0) + 1
        if seen[group] <= MOST_DOCUMENTS and text.strip():
            yield dict(family="documents", group=group, tool="read_file", arguments={"path": path}, text=text[:3000], failed=False)


def main():
    halves = {"strangers-dev": [], "strangers": []}
    for r in results(sys.argv[1] if len(sys.argv) > 1 else sys.executable):
        if r["family"] == "documents" or not blind.kept(r):  # others' texts: measured beside, not kept
            continue
        r["text"] = re.sub(r"https://registry[.\w]+", "https://packages.example", r["text"])
        half = hashlib.sha256(f"strangers/{r['family']}/{r['group']}".encode()).digest()[0] % 2
        halves[["strangers-dev", "strangers"][half]].append(r)
    for name, rows in halves.items():
        with open(blind.HERE / f"{name}.jsonl", "w") as out:
            for r in rows:
                line = dict(list(r.items())[:2] + [("source", name)] + list(r.items())[2:])
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(name, len(rows), "results,", sum(r["failed"] for r in rows), "failed")


if __name__ == "__main__":
    main()
