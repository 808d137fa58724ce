// Package where implements the language of filters, as in `reward > 0.5 and "refund" in called`: one boolean expression
// over the filtered item's fields.
//
// Its syntax is a subset of the syntax of github.com/expr-lang/expr. Importing expr would make the program 8 MB
// larger: because it calls methods by name, the linker would keep all methods of all packages. The language lacks
// functions, loops and indices, so a filter from a user's file can't fail, take long, or access anything but the
// fields. Types, field names and the values of enumerated fields are checked before any input is read, and an
// evaluation does not allocate memory.
//
// A filter is stored as a list of clauses, the operands of the outermost `and`. If an item doesn't match, the reported
// cause is the first clause that doesn't hold. A number that is unknown, such as the reward of an example without a
// score, is NaN: every comparison with it is false except !=.
package where
