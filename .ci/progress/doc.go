// Command progress runs `go test -json` and shows its progress: a line that updates in place on a terminal, a line
// every ten seconds elsewhere. It prints only the output of failing tests, and finishes with the slowest packages.
//
//	progress go test -json -timeout=10m PACKAGE...
package main
