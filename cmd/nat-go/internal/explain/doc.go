// Package explain finds the pages of drop reasons and finding codes. The pages themselves are defined beside the codes,
// in the packages that report them; this package has the list of those packages.
package explain
