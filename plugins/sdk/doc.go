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
// The tags of the config struct (package builders/schema) fully describe the config: its defaults, the host's findings
// with line and column, the JSON Schema and the documentation all come from them.
//
// When started by nat-go, the program serves its builders the way hashicorp/go-plugin expects, without linking that
// library. When started by hand, it is a command-line program: describe, schema, try FILE (which has nat-go run it),
// and --debug, which waits for a host to attach so that the plugin can run under a debugger.
//
// A builder is a pure function of its config and the group, and is called with one group at a time. Its output goes to
// the host's log; JSON lines keep their level and message. Nothing may be printed to standard output before Serve,
// because the first line is the handshake. A panic in Build fails only its group; the process continues.
//
// Importing the package does nothing to the process: memory, garbage collector, signals and environment remain under
// the program's control. A plugin has little live memory at any time, so setting GOGC=400 for nat-go, which passes it
// on to plugins, saves the garbage collector a lot of work in a large run. The package doesn't depend on cgo, on
// libraries for tokenizers, Parquet or compression, or on the built-in builders, so a plugin builds quickly.
//
// Part of the Go API we promise (v0).
package sdk
