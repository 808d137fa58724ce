// Package examples holds the example plugin that `nat-go builders new --lang python` starts from.
//
// Not part of the promised API.
package examples
