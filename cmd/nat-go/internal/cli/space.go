package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// minSpace is the address space that a run needs. Go and the tokenizer library reserve more than they use, and
// terminate the program if they can't.
const minSpace = 2 << 30

// checkSpace returns an error if the limit on the address space (ulimit -v) is too low.
func checkSpace() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return nil //nolint:nilerr // the limit is unknown, so it may be high enough
	}
	return checkSpaceLimit(uint64(limit.Cur)) //nolint:unconvert // it is signed on FreeBSD
}

func checkSpaceLimit(limit uint64) error {
	if limit >= minSpace {
		return nil
	}
	return fmt.Errorf("address space is limited to %d MiB (ulimit -v), and nat-go needs %d MiB: raise the limit",
		limit>>20, minSpace>>20)
}
