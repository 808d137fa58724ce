// Package pyvalue implements Python's view of a JSON value: how CPython 3.11 prints, compares, sorts and dumps it.
//
// NAT is written in Python and chat templates are designed for Python, so data files and rendered prompts contain
// Python's float text, Python's repr of lists, and Python's idea of truth and order. This package implements these
// rules once, for both.
//
// Text is WTF-8: UTF-8, except that a lone surrogate is its three-byte generalised encoding. The byte order of WTF-8 is
// code point order, so strings compare as in Python.
//
// Part of the Go API we promise (v0).
package pyvalue
