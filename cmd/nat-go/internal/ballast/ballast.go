package ballast

// Bytes is how much a heap may grow before it is collected, with the collector at its default (GOGC=100).
var Bytes = make([]byte, 8<<20)
