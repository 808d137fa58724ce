// Package builtin is the one list of the components that nat-go itself brings: sources, builders, trainer adapters. One
// line adds one.
//
// Builders run as third parties' do: in a process of their own, served by this program, so that there is one path and
// it is always tested.
package builtin
