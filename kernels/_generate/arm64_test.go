package main

import (
	"bufio"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
)

// TestWords disassembles every instruction that is written as a number and compares it with the comment next to it.
func TestWords(t *testing.T) {
	f, err := os.Open("../tiles_arm64.s")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		word, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "WORD $")
		if !ok {
			continue
		}
		n++
		hex, mnemonic, _ := strings.Cut(word, " // ")
		code, err := strconv.ParseUint(hex, 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, uint32(code)))
		if got := strings.ToLower(inst.String()); err != nil || got != mnemonic {
			t.Errorf("%s is written as %s, which is %s (%v)", mnemonic, hex, got, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Error("no instruction is written as a number: this test has nothing to do")
	}
}

// TestAssemblerLacks checks that Go's assembler doesn't support the instructions that are written as numbers. Its
// source, cmd/internal/obj/arm64/anames.go, lists the instructions that it supports.
func TestAssemblerLacks(t *testing.T) {
	has := assemblerMnemonics(t)
	var encoded []string
	for op := range neonOps {
		encoded = append(encoded, op)
	}
	for _, u := range neonUnary {
		encoded = append(encoded, strings.Fields(u.format)[0])
	}
	for _, op := range encoded {
		if name := "V" + strings.ToUpper(op); has[name] {
			t.Errorf("%s is written as a number, and the assembler has %s", op, name)
		}
	}
	for op, name := range neonMnemonics {
		if !has[name] {
			t.Errorf("%s is written as %s, which the assembler doesn't have", op, name)
		}
	}
}

// assemblerMnemonics lists the instructions supported by the Go that runs this test.
func assemblerMnemonics(t *testing.T) map[string]bool {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := filepath.Join(strings.TrimSpace(string(root)), "src/cmd/internal/obj/arm64/anames.go")
	text, err := os.ReadFile(names)
	if err != nil {
		t.Skipf("this Go has no sources of its assembler: %v", err)
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), `"`); ok {
			has[strings.TrimSuffix(name, `",`)] = true
		}
	}
	if !has["VEOR"] {
		t.Fatalf("%s is not the list of instructions it was", names)
	}
	return has
}
