// Package finding defines the findings of configuration checks and their positions. Every check uses the same type,
// which is printed as text, JSON, GitHub workflow commands or SARIF.
//
// Plugins return findings when they open a config (plugins/sdk).
//
// Part of the supported Go API (v0).
package finding
