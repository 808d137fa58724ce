package host

import "os"

// selfPath returns the running executable's path.
func selfPath() (string, error) { return os.Executable() }

// residentBytes is not implemented on this system, where GOMEMLIMIT is the only limit.
func residentBytes(int) (int64, bool) { return 0, false }

func limitMemory(int, int64) {}
