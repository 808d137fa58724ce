// Package finding defines what a check reports about a configuration, with its place: one type for every check, printed
// for people, as JSON, as GitHub workflow commands and as SARIF.
//
// Plugin authors meet it when they open a config (plugins/sdk).
//
// Part of the Go API we promise (v0).
package finding
