// Package json reads JSON as agent frameworks really write it: one fast streaming reader that hands out raw slices with
// byte offsets, accepts NaN and Infinity (Python's json.dumps writes them), keeps key order and duplicate keys, and has
// limits on depth and size.
package json
