// Package lists has helpers for slices that package slices lacks.
package lists
