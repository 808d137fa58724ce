// Package sdk makes a program a plugin of nat-go: Serve answers the builder protocol with builders.Builder values, so
// that an author writes a builder, a config struct and a main of ten lines, and nothing of gRPC.
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
//	var kinds = []builders.Kind{builders.KindPreference} // what it may emit
//
//	func newCurriculum(c *Config) (builders.Builder, error) { ... }
//
// The tags of the config struct (package builders/schema) are all there is to say about its config: defaults, the
// host's findings at their line and column, the JSON Schema and the documentation come from them.
//
// Started by nat-go, the program serves the builders as hashicorp/go-plugin asks for, which it does not link. Started
// by hand, it is a command line: describe, schema, try FILE (which has nat-go run it), and --debug, which waits for a
// host to attach, so that the plugin can run under a debugger.
//
// A builder is pure in (config, group) and is called with one group at a time. What it prints goes to the host's log;
// lines of JSON with level and message keep them. Nothing may be printed to standard output before Serve: the first
// line belongs to the handshake. A panic in Build fails its group and no other; the process lives on.
//
// Importing the package does nothing to the process: memory, collector, signals and environment stay the program's own.
// A plugin has little alive at a time, so that GOGC=400 in nat-go's environment, which it hands on, spares a large run
// much of the collector's work. The package pulls in no cgo, tokenizer, Parquet, compression or built-in builder, so
// that a plugin stays small to build.
//
// Part of the Go API we promise (v0).
package sdk
