// Package table reads Parquet files row by row, within limits, because a file of a few KiB may contain pages of many
// GiB, or a row of millions of values.
//
// It checks the page sizes stated in a file before it decodes any page, and counts the values of a row while it reads
// them.
package table
