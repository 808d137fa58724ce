// Command dist packages a built nat-go: as a Python wheel, an archive and a container image for users without Go, and
// as sources, a bill of materials and checksums for publishers. `make wheel`, `make release` and `make image` run it;
// the same binary yields the same bytes.
//
// It is a tool of this repository and promises no API.
package main
