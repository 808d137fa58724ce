// Package prefix finds the common prefixes of token sequences and texts.
package prefix
