// Package explain looks up the pages that explain drop reasons and finding codes. The codes are constants in codes.go
// in the packages that report them. Their pages are in codes.yaml, except that packages rows and dataset define the
// pages for their findings next to the codes.
package explain
