// Package lists has what package slices lacks.
package lists
