// Package host is the front door of the plugins' room for a program that runs plugins. Package plugins/internal/host
// says how they are run.
package host
