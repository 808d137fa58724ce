// Package pytext treats text as Python does, as code points, with the character properties and case mappings of
// CPython 3.11. Text is WTF-8.
//
// Character properties follow Unicode 14.0, the version in CPython 3.11, rather than Go's newer tables, so characters
// that were added later have no properties. testdata/tables.py generates tables.go from CPython itself.
package pytext
