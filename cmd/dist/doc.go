// Command dist packages a built nat-go for users without Go (a Python wheel, an archive, a container image) and for
// publishing (sources, a bill of materials, checksums). `make wheel`, `make release` and `make image` run it. The same
// binary always yields the same bytes.
//
// It is internal to this repository and may change at any time.
package main
