// Package write is the stage that writes the text rows of a data set, as a whole or in parts that are then joined.
package write
