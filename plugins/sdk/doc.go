// Package sdk turns a program into a nat-go plugin. Serve implements the builder protocol on top of builders.Builder
// values, so that an author writes only a builder, a config struct and a ten-line main, without any gRPC.
//
//	func main() {
//		sdk.Serve(sdk.Plugin{
//			Name:    "acme",
//			Version: "1.2.0",
//			Builders: []sdk.Factory{
//				sdk.New(builders.Info{Name: "curriculum", Kinds: kinds}, newCurriculum),
//			},
//		})
//	}
//
//	var kinds = []builders.Kind{builders.KindPreference} // the kinds it may emit
//
//	func newCurriculum(c *Config) (builders.Builder, error) { ... }
//
// The tags of the config struct (package builders/schema) fully describe the config. Its defaults, the host's
// findings with line and column, the JSON Schema and the documentation are derived from them.
//
// When started by nat-go, the program serves its builders as hashicorp/go-plugin expects, without linking that
// library. When started by hand, it is a command-line program with the commands describe, schema, and try FILE, which
// runs it in nat-go, and the flag --debug, with which it waits for a host to attach, so that it can run under a
// debugger.
//
// A builder is a pure function of its config and the group, and is called with one group at a time. Its output goes to
// the host's log; JSON lines keep their level and message. Nothing may be printed to standard output before Serve,
// because the first line is the handshake. A panic in Build fails only its group; the process continues.
//
// Importing the package does not affect the process. Memory, garbage collector, signals and environment remain under
// the program's control. Because a plugin has little live memory, setting GOGC=400 for nat-go, which passes it on to
// plugins, greatly reduces garbage collection in a large run. The package doesn't depend on cgo, on libraries for
// tokenizers, Parquet or compression, or on the built-in builders, so a plugin builds quickly.
//
// Part of the supported Go API (v0).
package sdk
