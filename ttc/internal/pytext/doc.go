// Package pytext is Python's view of text: code points of WTF-8, and the properties and cases that CPython 3.11 gives
// them.
//
// Character properties are those of Unicode 14.0, which CPython 3.11 ships. Go's tables are newer: a character that
// 14.0 does not know has no property here (tables.go, made by testdata/tables.py from CPython itself).
package pytext
