// Command dist packages a built nat-go for users without Go (a Python wheel, an archive, a container image) and for
// publishing (sources, a bill of materials, checksums). `make wheel`, `make release` and `make image` run it; the same
// binary yields the same bytes.
//
// It is a tool of this repository and promises no API.
package main
