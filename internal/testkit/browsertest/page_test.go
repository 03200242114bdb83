package browsertest

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What readers stumble over is found: without that, a page without findings would mean nothing.
func TestBrowserRunsAxe(t *testing.T) {
	b := Open(t)
	path := filepath.Join(t.TempDir(), "page.html")
	bad := `<!doctype html><html><title>bad</title><main><h1>Bad</h1><h3>Skipped</h3><p style="color:#ccc">faint</p>
		<img src="data:,"><input></main></html>`
	if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	b.OpenFile(path)
	found := strings.Join(b.Axe(), "\n")
	for _, rule := range []string{"color-contrast", "heading-order", "html-has-lang", "image-alt", "label"} {
		if !strings.Contains(found, rule+": ") {
			t.Errorf("axe-core does not find %s: %s", rule, found)
		}
	}
}

// A picture is like itself and like one with other letters, and not like one with another part.
func TestLooksApart(t *testing.T) {
	picture := func(change func(*image.RGBA)) []byte {
		page := image.NewRGBA(image.Rect(0, 0, 480, 480))
		for i := range page.Pix {
			page.Pix[i] = 255
		}
		change(page)
		var out bytes.Buffer
		if err := png.Encode(&out, page); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	filled := func(at image.Rectangle) func(*image.RGBA) {
		return func(page *image.RGBA) {
			for y := at.Min.Y; y < at.Max.Y; y++ {
				for x := at.Min.X; x < at.Max.X; x++ {
					page.Set(x, y, color.RGBA{R: 180, A: 255})
				}
			}
		}
	}
	plain := picture(func(*image.RGBA) {})
	for _, one := range []struct {
		name string
		at   image.Rectangle
		same bool
	}{{"letters", image.Rect(10, 10, 14, 20), true}, {"a banner", image.Rect(0, 0, 480, 60), false}} {
		off, err := apart(plain, picture(filled(one.at)))
		if err != nil || (off <= cellsMayOff) != one.same {
			t.Errorf("%s: %.2f of the cells differ (%v)", one.name, off, err)
		}
	}
}

// axe-core's licence is not among those that the program may contain.
func TestAxeIsNoPartOfTheProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it lists the packages of the program")
	}
	out, err := exec.Command("go", "list", "-deps", "github.com/dlqbench/dlqbench/cmd/dlqbench").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "testkit/browsertest") {
		t.Error("the program imports this package, and with it axe-core")
	}
}
