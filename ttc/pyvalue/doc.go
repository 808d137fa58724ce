// Package pyvalue is Python's view of a JSON value: what CPython 3.11 prints, compares, sorts and dumps.
//
// NAT is written in Python and chat templates run in Python, so data files and rendered prompts hold Python's float
// text, Python's repr of lists, Python's idea of truth and order. This package has those rules once, for both.
//
// A Value is a small struct, not an interface: numbers and texts need no allocation of their own, and a leaf has a slot
// (the tag) in which the template engine carries where a text came from. Nothing in this package reads a tag, except
// that repr asks it for the name of a subclass of str (subclass).
//
// Text is WTF-8: UTF-8, except that a lone surrogate is its three-byte generalised encoding. Byte order of WTF-8 is
// code point order, so texts compare as Python compares them. Lengths and indices that Python counts in code points are
// counted so here.
//
// Character properties are those of Unicode 14.0, which CPython 3.11 ships. Go's tables are newer: a character that
// 14.0 does not know has no property here (tables.go, made by testdata/tables.py from CPython itself).
//
// Part of the Go API we promise (v0).
package pyvalue
