// Package tokenview prints rows and error sites of token batches as they were written, token by token: who owns each
// token, and whether, or why not, it is trained.
package tokenview
