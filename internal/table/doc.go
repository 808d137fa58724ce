// Package table reads Parquet files row by row, within limits: a file of a few KiB may contain pages of many GiB, and a
// row of millions of values.
//
// The page sizes stated in a file are checked before any page is decoded; the values of a row are counted as they are
// read.
package table
