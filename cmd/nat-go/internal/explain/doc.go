// Package explain looks up the pages that explain drop reasons and finding codes. The codes are constants in codes.go
// in the packages that report them. Their pages are in codes.yaml, except that package rows defines the pages for
// its findings next to the codes.
package explain
