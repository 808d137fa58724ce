// Package where is the language of filters, as in `reward > 0.5 and "refund" in called`: one boolean expression over
// fields of the thing that is filtered.
//
// Its syntax is a part of github.com/expr-lang/expr's, which itself would make the program 8 MB larger: it calls
// methods by name, so the linker keeps all methods of all packages. There are no functions, loops and indices: a filter
// from a user's file can't fail, run long, or reach anything but the fields. Types, field names and the values of
// enumerated fields are checked before anything is read, and an evaluation allocates nothing.
//
// A filter is kept as its clauses, the operands of the outermost `and`: a thing that doesn't fit is dropped for the
// first clause that doesn't hold. A number that is unknown, such as the reward of an example without a score, is NaN:
// every comparison with it is false except !=.
package where
