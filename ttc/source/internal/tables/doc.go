// Package tables reads tables (Parquet and CSV files) as JSON lines, with one object per row, so that every source
// can read them like JSON. Keys keep the order of the columns. Null values, and empty cells in CSV, are omitted,
// because a table has a cell for every column in every row, even where a value is missing. CSV cells are text.
package tables
