// Package published reads the shapes in which well-known data sets are published and that differ from the usual ones by
// more than the names of their keys: it rewrites each entry as an answer with its score, or as a conversation.
package published
