// Package prefix finds what sequences of tokens have in common from their start.
package prefix
