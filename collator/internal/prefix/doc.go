// Package prefix finds the common prefixes of token sequences.
package prefix
