// Package host is the public API for programs that run plugins. Package plugins/internal/host describes how it runs
// them.
package host
