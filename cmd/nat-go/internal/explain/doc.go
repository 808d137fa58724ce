// Package explain finds the pages of drop reasons and finding codes. The codes are constants in codes.go of the
// packages that report them. Their pages are in codes.yaml, except that packages rows and dataset define the pages of
// their findings next to the codes.
package explain
