// Package cli is nat-go's command line: a file per command, flags in, one call into the package that does the work,
// text or JSON out. It contains no logic. The one long function, feeds, is a table.
//
// Every command takes --json and then prints one object, last, on standard output; logs and progress go to standard
// error. A command returns an error made with package exit, which determines the exit code.
//
// It is large only because there are many commands.
package cli
