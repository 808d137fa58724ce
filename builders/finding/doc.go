// Package finding is what there is to say about a configuration, with its place: one type for everything that checks
// one, printed for people, as JSON, as GitHub's workflow commands and as SARIF.
//
// A plugin's author meets it where a config is opened (plugins/sdk).
//
// Part of the Go API we promise (v0).
package finding
