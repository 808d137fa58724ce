// Package explain finds the pages on drop reasons and finding codes. The codes are constants in codes.go in the
// packages that report them. Their pages are in codes.yaml, except that packages rows and dataset define the pages on
// their findings next to the codes.
package explain
