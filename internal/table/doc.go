// Package table reads Parquet files row by row, within limits: a file of a few KiB may hold pages of many GiB, and a
// row of millions of values.
//
// What the pages of a file say of their size is looked at before any is decoded; the values of a row are counted as
// they are read.
//
// Not part of the promised API.
package table
