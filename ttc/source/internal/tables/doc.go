// Package tables reads tables - Parquet files, CSV - as JSON lines, one object per row, so every source can read them
// as it reads JSON. Keys keep the order of the columns. Null values, and empty cells in CSV, are omitted, because a
// table has a cell for every column in every row, even where a value is missing. CSV cells are text.
package tables
