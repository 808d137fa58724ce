// Package explain finds the pages of drop reasons and finding codes. The pages themselves stand beside the codes, in
// the packages that report them; this one has the list of those packages.
package explain
