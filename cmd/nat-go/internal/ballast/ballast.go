package ballast

// Bytes is as much as a heap may grow by before it is collected, where the collector is left as it is (GOGC=100). Twice
// as much saves three per cent of a run and takes 20 MiB more where the machine is busy.
var Bytes = make([]byte, 12<<20)
