package pages

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestPicture: the README's picture of a terminal is what its script draws from this program.
func TestPicture(t *testing.T) {
	pythontest.Long(t, "the README's picture was not compared")
	if _, err := exec.LookPath("python3"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "python") {
			t.Fatal("there is no python3, and NATGO_REQUIRE names it")
		}
		t.Skip("SKIPPED: there is no python3, so the README's picture was not compared")
	}
	folder := filepath.Join("..", "..", "..", "..", "..", "examples", "demo")
	got, err := exec.Command("python3", filepath.Join(folder, "picture.py"), e2e.Program(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(folder, "demo.svg"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("`python3 examples/demo/picture.py bin/nat-go > examples/demo/demo.svg` would change it (%v)", err)
	}
}

// TestViewPicture: the README's picture of the view is as large as the one that its script draws, and neither is blank.
// They aren't compared further, because fonts differ between machines.
func TestViewPicture(t *testing.T) {
	pythontest.Long(t, "the README's picture was not drawn")
	if _, err := exec.LookPath("chromium"); err != nil {
		if pythontest.Required("chromium") {
			t.Fatal("NATGO_REQUIRE names chromium, and there is none")
		}
		t.Skip("SKIPPED: no chromium, so the README's picture was not drawn")
	}
	if !e2e.WithTokenizers() {
		t.Skip("SKIPPED: without the tokenizer library the picture's run has no token rows")
	}
	folder := filepath.Join("..", "..", "..", "..", "..", "examples", "hints")
	drawn := filepath.Join(t.TempDir(), "view.png")
	if out, err := exec.Command("sh", filepath.Join(folder, "picture.sh"), e2e.Program(t), drawn).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var sizes []image.Point
	for _, path := range []string{filepath.Join(folder, "view.png"), drawn} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		picture, err := png.Decode(file)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		size := picture.Bounds().Size()
		sizes = append(sizes, size)
		colours, other := map[color.Color]int{}, 0
		for y := range size.Y {
			for x := range size.X {
				c := picture.At(x, y)
				if colours[c]++; c != picture.At(0, size.Y-1) {
					other++
				}
			}
		}
		if share := float64(other) / float64(size.X*size.Y); share < 0.03 || len(colours) < 50 {
			t.Errorf("%s: %.1f %% of it is not background, %d colours", path, 100*share, len(colours))
		}
	}
	if sizes[0] != sizes[1] {
		t.Errorf("the README's picture has %v pixels, its script draws %v", sizes[0], sizes[1])
	}
}
