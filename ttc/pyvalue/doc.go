// Package pyvalue implements JSON values as Python handles them: CPython 3.11's rules for printing, comparing,
// sorting and dumping them.
//
// NAT is written in Python and chat templates are designed for Python, so data files and rendered prompts depend on
// Python's formatting of floats, its repr of lists, and its rules for truth and order. This package implements these
// rules for both.
//
// Text is WTF-8: UTF-8, except that a lone surrogate has its three-byte generalised encoding. The byte order of WTF-8
// is code point order, so strings compare as in Python.
//
// Part of the supported Go API (v0).
package pyvalue
