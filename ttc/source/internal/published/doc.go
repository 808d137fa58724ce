// Package published reads well-known data sets whose shapes differ from the usual ones in more than key names. It
// rewrites each entry as answers with their scores, or as a conversation.
package published
