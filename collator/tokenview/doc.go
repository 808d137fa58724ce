// Package tokenview prints rows and error sites of token batches token by token, with the owner of each token
// and whether, or why not, it is trained on.
package tokenview
