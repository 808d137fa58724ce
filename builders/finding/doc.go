// Package finding defines the findings of a check of a configuration, with their places: one type for every check,
// printed as text, as JSON, as GitHub workflow commands and as SARIF.
//
// Plugin authors see it when they open a config (plugins/sdk).
//
// Part of the Go API we promise (v0).
package finding
