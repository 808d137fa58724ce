// Command dist packs a built nat-go for those who don't have Go: as a wheel for Python, an archive and a container
// image; and for those who publish it: its sources, a bill of materials and checksums. `make wheel`, `make release` and
// `make image` run it; the same binary gives the same bytes.
//
// It is a tool of this repository and promises no API.
package main
