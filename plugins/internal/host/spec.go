package host

import (
	"cmp"
	"time"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Spec describes how to run a plugin. If a field is zero, its documented default is used.
type Spec struct {
	Name string   // the user's name for the plugin
	Path string   // executable; found on PATH if it contains no separator
	Self bool     // run the current executable instead of Path
	Args []string // command-line arguments

	// Module is a Python module that declares builders; the interpreter at Path serves it through the package natgo. If
	// it is set, SHA256 is the checksum of the module's package, and Beside holds those of the package's files.
	Module string

	Dir string // working directory; the host's by default

	SHA256 string // hex checksum of the file; if set, a checked copy is run, otherwise the file itself
	// Checksums of the files next to Path that the program loads, by file name. If SHA256 is set, they are copied and
	// checked along with Path.
	Beside map[string]string
	Env    []string // names of environment variables granted to the plugin in addition to the harmless ones

	Reattach string // address of a running plugin (--debug): "unix:/path"; nothing is started or stopped

	Instances    int           // number of processes; default 1
	StartTimeout time.Duration // max time from a process's start until it has described itself; default 10 s
	CallTimeout  time.Duration // max time for a unary call; default 10 s
	// BatchTimeout is the max time without a sign of life while a plugin is working on groups; default 60 s. Even with
	// signs of life, the plugin must finish a group within ten times as long.
	BatchTimeout time.Duration
	DrainTimeout time.Duration // max time to end after a request to do so; default 5 s
	Memory       int64         // max resident bytes per process; 0 means no limit
	GroupLimit   int           // max bytes per group; default 32 MiB
	OutputLimit  int           // max bytes of memory for one group's results; default 96 MiB
	Window       int           // max bytes of groups in progress across all processes; default 8 MiB per instance
	Backoff      time.Duration // pause after the second failure in a row, doubling up to 30 s; default 250 ms
	Failures     int           // failures in a row, without a finished group in between, that end the run; default 10

	// OutputSetting is the name of the setting for OutputLimit, used in messages; default plugins.NAME.output.
	OutputSetting string

	// Known reports whether the program knows a drop reason; any other reason is prefixed with the plugin's name. If
	// nil, no reason is known.
	Known func(ledger.Reason) bool
}

func (s Spec) withDefaults() Spec {
	s.Instances = cmp.Or(s.Instances, 1)
	s.StartTimeout = cmp.Or(s.StartTimeout, 10*time.Second)
	s.CallTimeout = cmp.Or(s.CallTimeout, 10*time.Second)
	s.BatchTimeout = cmp.Or(s.BatchTimeout, time.Minute)
	s.DrainTimeout = cmp.Or(s.DrainTimeout, 5*time.Second)
	s.GroupLimit = cmp.Or(s.GroupLimit, 32<<20)
	s.OutputLimit = cmp.Or(s.OutputLimit, 96<<20)
	s.OutputSetting = cmp.Or(s.OutputSetting, "plugins."+s.Name+".output")
	s.Window = cmp.Or(s.Window, s.Instances*8<<20)
	s.Backoff = cmp.Or(s.Backoff, 250*time.Millisecond)
	s.Failures = cmp.Or(s.Failures, 10)
	if s.Reattach != "" {
		s.Instances = 1
	}
	return s
}

// baseEnv lists the variables of the host's environment that every plugin may see.
var baseEnv = []string{
	"PATH", "HOME", "USER", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "GOMAXPROCS", "GOGC",
	"GOTRACEBACK",
	"XDG_CACHE_HOME", "GOCOVERDIR",
}
