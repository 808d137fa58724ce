// Package published reads well-known data sets whose shapes differ from the usual ones by more than the names of their
// keys: it rewrites each entry as answers with their scores, or as a conversation.
package published
