// Package cli is nat-go's command line. Each command reads its flags, calls the package that does the work, and prints
// the result as text or JSON.
//
// With --json, a command prints its result as one JSON object at the end of standard output; a few print JSON lines
// with or without the flag. Logs and progress go to standard error. The exit code of a command that fails comes from
// package exit.
package cli
