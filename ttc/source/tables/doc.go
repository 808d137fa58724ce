// Package tables reads tables - Parquet files, CSV - as JSON lines, an object per row, so that every source reads them
// as it reads JSON. Keys keep the order of the columns. What is null or, in CSV, empty is left out: a column of a table
// has a cell in every row, and a missing value is no value. Cells of CSV are texts.
//
// Not part of the promised API.
package tables
