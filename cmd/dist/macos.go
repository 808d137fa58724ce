package main

import (
	"bytes"
	"debug/macho"
	"errors"
	"fmt"
)

// buildVersion is the load command that records the macOS version a program was built for.
const buildVersion = 0x32

// macOS returns the platform tag of a program for macOS on arm64, such as macosx_12_0_arm64. It returns "" if the
// program is for another system.
func macOS(program []byte) (string, error) {
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", nil //nolint:nilerr // not in macOS's format
	}
	defer f.Close()
	if f.Cpu != macho.CpuArm64 {
		return "", fmt.Errorf("expected a program for macOS on arm64, got one for %v", f.Cpu)
	}
	for _, load := range f.Loads {
		raw := load.Raw() // command, size, platform, oldest version: 4 bytes each
		if len(raw) >= 16 && f.ByteOrder.Uint32(raw) == buildVersion {
			oldest := f.ByteOrder.Uint32(raw[12:])
			return fmt.Sprintf("macosx_%d_%d_arm64", oldest>>16, oldest>>8&0xff), nil
		}
	}
	return "", errors.New("unknown minimum macOS version")
}
