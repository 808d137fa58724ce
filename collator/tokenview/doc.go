// Package tokenview prints rows and error sites of token batches as they were written, token by token, with each
// token's owner and whether it is trained on or why it isn't.
package tokenview
