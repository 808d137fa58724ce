// Command go-builder is a builder plugin: preference pairs whose sides are about equally long, so that a model can't learn
// to prefer length. It is a module of its own, as a stranger's would be.
package main
