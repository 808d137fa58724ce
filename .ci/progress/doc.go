// Command progress runs `go test -json` and shows how far it is: a line that changes on a terminal, a line every ten
// seconds elsewhere. It prints the output of tests that fail and of no others, and at the end what took longest.
//
//	progress go test -json -timeout=10m PACKAGE...
package main
