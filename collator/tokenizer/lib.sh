#!/bin/sh
# lib.sh makes sure there is a libtokenizers.a that the Go binding can link, and
# prints the folder that holds it as the last line of its output:
#
#   CGO_LDFLAGS="-L$(sh collator/tokenizer/lib.sh | tail -n 1)" go build -tags tokenizers ./...
#
# It uses the first of:
#   1. $NATGO_TOKENIZERS_LIB, a folder or the file itself (an unusable one is an error);
#   2. the user's cache: ${XDG_CACHE_HOME:-$HOME/.cache}/nat-go/libtokenizers/<version>/<os>-<arch>;
#   3. an installed library in the usual folders;
#   4. the release archive, only if its sha256 is known: pinned below or given as
#      $NATGO_TOKENIZERS_SHA256 (unverified code is never linked);
#   5. cargo, from the Go module's own sources and the Cargo.lock next to this file.
# Results of 4 and 5 are moved into the cache by a single rename; parallel runs wait for each other.
#
# With --glibc 2.17 the library links with a glibc that old, and always comes from 2 or 5: $CC must link for that glibc,
# too, and cargo-zigbuild must be on PATH. The licences of what cargo built are put next to it as LICENSES. $GOARCH may
# differ from this machine's if $RUSTC has a standard library for it. Progress goes to stderr. Exit status 3 means that
# the environment lacks something it needs.
set -eu

version=v1.27.0                    # of the Go module, as in go.mod
symbol=tokenizers_version_1_26_0   # what the binding checks at link time
module=github.com/daulet/tokenizers
tiktoken='tiktoken-rs = "=0.9.1"'  # the registry's release instead of a git address

glibc=
[ "${1-}" != --glibc ] || glibc=$2

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
began=$(date +%s)
say() { echo "libtokenizers: $*" >&2; }
# since TIME prints how long ago that was.
since() {
	passed=$(($(date +%s) - $1))
	if [ $passed -lt 60 ]; then echo "$passed s"; else echo "$((passed / 60)) m $((passed % 60)) s"; fi
}
# slowly WHAT COMMAND...: runs the command, and reports every 20 seconds that it is still running.
slowly() {
	what=$1
	shift
	say "$what"
	start=$(date +%s)
	(while sleep 20 >/dev/null 2>&1; do say "still at it, for $(since "$start")"; done) &
	ticker=$!
	status=0
	"$@" || status=$?
	kill "$ticker" 2>/dev/null
	wait "$ticker" 2>/dev/null || :
	ticker=
	return $status
}
die() { say "$*"; exit 3; }

# archive_sha256 OS-ARCH prints the pinned checksum of that release archive, if there is one.
archive_sha256() {
	if [ -n "${NATGO_TOKENIZERS_SHA256:-}" ]; then
		echo "$NATGO_TOKENIZERS_SHA256"
		return
	fi
	case $1 in
	*) ;; # upstream publishes no checksums; add "linux-amd64) echo <sha256> ;;" once one is verified
	esac
}

# usable FILE: succeeds if a program that needs our version of the library links with it.
usable() {
	[ -s "$1" ] || return 1
	LC_ALL=C grep -q -a "$symbol" "$1" || return 1
	probe=$(mktemp -d) || return 1
	echo "extern void $symbol(void); int main(void) { $symbol(); return 0; }" >"$probe/probe.c"
	status=0
	${CC:-cc} -o "$probe/probe" "$probe/probe.c" "$1" -ldl -lm -lstdc++ >"$probe/log" 2>&1 || status=1
	rm -rf "$probe"
	return $status
}

sha256_of() {
	if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

download() { # into $work/libtokenizers.a
	want=$(archive_sha256 "$platform")
	[ -n "$want" ] || return 1
	command -v curl >/dev/null 2>&1 || return 1
	url="https://$module/releases/download/$version/libtokenizers.$platform.tar.gz"
	say "fetching $url"
	curl -fsSL --connect-timeout 5 --max-time 120 --proto '=https' -o "$work/archive.tar.gz" "$url" 2>/dev/null || {
		say "the archive could not be fetched"
		return 1
	}
	got=$(sha256_of "$work/archive.tar.gz")
	if [ "$got" != "$want" ]; then
		say "refused: the archive's sha256 is $got, expected $want"
		return 1
	fi
	tar -xzf "$work/archive.tar.gz" -C "$work" libtokenizers.a && usable "$work/libtokenizers.a"
}

build() { # into $work/libtokenizers.a
	command -v cargo >/dev/null 2>&1 || return 1
	(cd "$here" && go mod download "$module") || die "the Go module $module could not be fetched"
	sources=$(cd "$here" && go list -m -f '{{.Dir}}' "$module")
	mkdir "$work/src"
	cp -R "$sources/." "$work/src/"
	chmod -R u+w "$work/src"
	manifest="$work/src/crates/tokenizers/Cargo.toml"
	sed "s|^tiktoken-rs = .*|$tiktoken|" "$manifest" >"$work/manifest"
	mv "$work/manifest" "$manifest"
	cp "$here/libtokenizers/Cargo.lock" "$work/src/Cargo.lock"
	how=build out=release
	if [ -n "$glibc" ]; then
		case $platform in
		*-arm64-*) triple=aarch64-unknown-linux-gnu ;;
		*) triple=x86_64-unknown-linux-gnu ;;
		esac
		how="zigbuild --target $triple.$glibc" out=$triple/release
	fi
	# shellcheck disable=SC2086 # several words
	slowly "building with cargo, once for this version: a minute or two of processor time" compile $how ||
		die "cargo could not build it (the lines above say why)"
	mv "$work/target/$out/libtokenizers_ffi.a" "$work/libtokenizers.a"
	checks="trying to link it"
	[ -z "$glibc" ] || checks="trying to link it: the first time, zig compiles its C++ library, which takes minutes"
	slowly "$checks" usable "$work/libtokenizers.a" || die "what cargo built does not link with $symbol"
	licences >"$work/LICENSES"
}

compile() { # how...
	cd "$work/src" && CARGO_TARGET_DIR="$work/target" nice cargo "$@" --quiet --locked --release -p tokenizers-ffi >&2
}

# licences prints the licences of Rust's own library and of the crates in the lock file.
licences() {
	rust=$("${RUSTC:-rustc}" --print sysroot)/share/doc
	for file in "$rust"/rust/licenses/* "$rust"/libstd-rust*-dev/copyright; do
		[ ! -f "$file" ] || { printf '\n==== Rust: %s\n' "${file##*/}" && cat "$file"; }
	done
	sed -n 's/^name = "\(.*\)"/\1/p; s/^version = "\(.*\)"/\1/p' "$here/libtokenizers/Cargo.lock" | paste - - |
		while read -r name release; do
			crate=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-$release")
			for file in "$crate"/LICEN[CS]E* "$crate"/COPYING* "$crate"/NOTICE* "$crate"/UNLICENSE*; do
				[ ! -f "$file" ] || { printf '\n==== crate %s %s: %s\n' "$name" "$release" "${file##*/}" && cat "$file"; }
			done
		done
}

command -v go >/dev/null 2>&1 || die "go is not on PATH"
platform=$(cd "$here" && go env GOOS)-$(cd "$here" && go env GOARCH)
used=$(cd "$here" && go list -m -f '{{.Version}}' "$module")
[ "$used" = "$version" ] || die "go.mod has $module $used, this script is for $version: update both, and the symbol"

if [ -n "$glibc" ]; then
	platform=$platform-glibc$glibc
elif [ -n "${NATGO_TOKENIZERS_LIB:-}" ]; then
	file=$NATGO_TOKENIZERS_LIB
	[ -d "$file" ] && file=$file/libtokenizers.a
	usable "$file" || die "NATGO_TOKENIZERS_LIB: $file does not link with $symbol (missing, another version or another machine)"
	(CDPATH='' cd -- "$(dirname -- "$file")" && pwd)
	exit 0
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/nat-go/libtokenizers/$version/$platform
if [ -s "$cache/libtokenizers.a" ]; then
	echo "$cache"
	exit 0
fi

for dir in /usr/local/lib /usr/lib "/usr/lib/$(uname -m)-linux-gnu" /opt/homebrew/lib "$HOME/.local/lib"; do
	if [ -z "$glibc" ] && usable "$dir/libtokenizers.a"; then
		say "using $dir/libtokenizers.a"
		echo "$dir"
		exit 0
	fi
done

mkdir -p "$cache"
lock=$cache/lock
work= ticker=
trap '[ -z "$ticker" ] || kill "$ticker" 2>/dev/null; rm -rf "$work"; [ "$(cat "$lock/pid" 2>/dev/null)" = $$ ] && rm -rf "$lock"; :' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# holds PID: succeeds if that process is building this library. Another may have reused the PID of a killed one.
holds() {
	if command -v ps >/dev/null 2>&1; then ps -p "$1" -o args= | grep -q 'lib\.sh'; else kill -0 "$1" 2>/dev/null; fi
}
told=0
until mkdir "$lock" 2>/dev/null; do
	owner=$(cat "$lock/pid" 2>/dev/null) || { # just being made, or left half made
		sleep 1
		owner=$(cat "$lock/pid" 2>/dev/null) || owner=none
	}
	if [ "$owner" = none ] || ! holds "$owner"; then
		say "giving up the lock of process $owner, which is gone"
		rm -rf "$lock"
		continue
	fi
	now=$(date +%s)
	if [ $((now - told)) -ge 20 ]; then
		told=$now
		of=$(cat "$lock/since" 2>/dev/null) || of=$now
		say "waiting for $(ps -p "$owner" -o args= 2>/dev/null) (pid $owner), which began $(since "$of") ago; for $(since "$began") now"
	fi
	sleep 1
done
echo "$began" >"$lock/since"
echo $$ >"$lock/pid"

if [ ! -s "$cache/libtokenizers.a" ]; then
	work=$(mktemp -d "$cache/build.XXXXXX")
	{ [ -z "$glibc" ] && download; } || build || die "not found. Install Rust (cargo), or point NATGO_TOKENIZERS_LIB at a libtokenizers.a of $module $version"
	[ ! -f "$work/LICENSES" ] || mv "$work/LICENSES" "$cache/LICENSES"
	mv "$work/libtokenizers.a" "$cache/libtokenizers.a"
fi
echo "$cache"
