// Command generate writes the amd64 and arm64 assembly for packages kernels and kernelbench. It is a separate module,
// so that nat-go doesn't depend on avo. Run it through gen.sh.
package main

import (
	"fmt"
	"go/constant"
	"go/types"
	"os"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"golang.org/x/tools/go/packages"
)

const (
	kernelsPackage = "github.com/nat-go/nat-go/kernels"
	tileSignature  = "func(a *tileArgs)"
)

// dtype is the element type of a tile function.
type dtype struct {
	name string
	size int
}

var (
	f32    = dtype{"F32", 4}
	bf16   = dtype{"BF16", 2}
	f16    = dtype{"F16", 2}
	dtypes = []dtype{f32, bf16, f16}
)

// choose returns the part of a tile function's name that says whether a property is set. A second-pass tile is called
// jsd or, with a gradient, grad. Even means that the tile uses psi_1/2 instead of the general table. Kept means that a
// tile without a gradient uses the exponentials that the first pass kept; a tile with a gradient always uses them.
func choose(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// Polynomials for exp2: one on [0,1) with relative error 8e-8, and one on [-1/2,1/2] with relative error 9e-9, whose
// value at 0 is 1.
var (
	expFloor = []float64{
		0.999999940395355224609375, 0.693152725696563720703125, 0.2401557266712188720703125,
		5.58212064206600189208984375e-2, 8.994684554636478424072265625e-3, 1.875563524663448333740234375e-3,
	}
	expNear = []float64{
		1.0, 0.6931471824645996, 0.24022650718688965, 0.055503569543361664, 0.009618083015084267,
		0.0013390863314270973, 0.00015453163359779865,
	}
)

// numbers returns an integer constant of package kernels, such as the degree of a table's polynomials.
type numbers func(name string) int

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate DIR, the folder of package kernels")
		os.Exit(2)
	}
	// The package's types are read from its sources, ignoring functions that are yet to be generated.
	check(os.Chdir(os.Args[1]))
	check(os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -tags=purego"))
	own := readNumbers()

	tiles := amd64Tiles(own)
	write("tiles_amd64.s", printer.NewGoAsm(generatedBy("")), tiles)
	write("stubs_amd64.go", printer.NewStubs(generatedBy("kernels")), tiles)

	neon, stubs := arm64Tiles(own)
	check(os.WriteFile("tiles_arm64.s", neon, 0o644))
	write("stubs_arm64.go", printer.NewStubs(generatedBy("kernels")), stubs)

	probe := probes()
	write("../cmd/nat-go/internal/kernelbench/probe_amd64.s", printer.NewGoAsm(generatedBy("")), probe)
	write("../cmd/nat-go/internal/kernelbench/probe_amd64.go", printer.NewStubs(generatedBy("kernelbench")), probe)
	writeInstructions("../cmd/nat-go/internal/kernelbench/instructions_amd64.go", tiles)
}

func readNumbers() numbers {
	mode := packages.NeedTypes | packages.NeedDeps | packages.NeedImports
	pkgs, err := packages.Load(&packages.Config{Mode: mode}, kernelsPackage)
	check(err)
	return func(name string) int {
		c, ok := pkgs[0].Types.Scope().Lookup(name).(*types.Const)
		if !ok {
			check(fmt.Errorf("missing constant %s in package kernels: %v", name, pkgs[0].Errors))
		}
		n, _ := constant.Int64Val(c.Val())
		return int(n)
	}
}

// newContext returns an empty file with a build constraint. pkg, if not empty, is the package whose types the file
// refers to.
func newContext(constraint, pkg string) *build.Context {
	c := build.NewContext()
	c.ConstraintExpr(constraint)
	if pkg != "" {
		c.Package(pkg)
	}
	return c
}

// function starts a function whose arguments don't escape.
func function(c *build.Context, name, signature string) {
	c.Function(name)
	c.Pragma("noescape")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(signature)
}

// compile turns the instructions of a context into a file that can be printed.
func compile(c *build.Context) *ir.File {
	f, err := c.Result()
	check(err)
	check(pass.Compile.Execute(f))
	return f
}

// generatedBy returns a printer whose header omits the command line, so that the output depends only on the source.
func generatedBy(pkg string) printer.Config {
	return printer.Config{Name: "kernels/_generate", Pkg: pkg}
}

func write(file string, p printer.Printer, f *ir.File) {
	out, err := p.Print(f)
	check(err)
	check(os.WriteFile(file, out, 0o644))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
