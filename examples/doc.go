// Package examples holds the example plugin that `nat-go builders new --lang python` starts from.
package examples
