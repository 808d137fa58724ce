// Package pytext treats text as Python does: as the code points of WTF-8, with the properties and case mappings of
// CPython 3.11.
//
// Character properties follow Unicode 14.0, the version in CPython 3.11, rather than Go's newer tables, so characters
// added later lack properties. testdata/tables.py generates tables.go from CPython itself.
package pytext
