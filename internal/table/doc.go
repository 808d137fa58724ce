// Package table reads Parquet files row by row, within limits: a file of a few KiB may claim a row of millions of
// values.
//
// The lists in a file's metadata are counted before the library makes room for them; the values of a row are counted as
// they are read.
package table
