package browsertest

// This file looks at a page as different readers do: on a large screen and on a phone, in light and dark colours, on
// paper, with a keyboard alone, and with axe-core, which finds what readers with disabilities stumble over. It also
// keeps the pictures of the documentation, and compares the pages with them.

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"image"
	"image/png"
	"os"
	"slices"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axeSource is axe-core 4.14.1, unchanged (MPL-2.0, testdata/axe.LICENSE). Only tests import this package, so that it
// is never a part of the program.
//
//go:embed testdata/axe.min.js
var axeSource string

// screen is a size at which pages are looked at, in CSS pixels.
type screen struct {
	name          string
	width, height int64
}

func screens() []screen { return []screen{{"desktop", 1440, 900}, {"phone", 390, 844}} }

// Inspect looks at the page that is open on each screen, in light and dark colours, and on paper. It reports what
// axe-core finds, what is wider than the screen, and what a keyboard alone does not reach. of names the page. With
// PICTURES=DIR, it writes a picture of each view to that folder.
func (b *Browser) Inspect(of string) {
	b.t.Helper()
	told := map[string]bool{}
	tell := func(format string, args ...any) { // what every view has is told once
		b.t.Helper()
		if words := fmt.Sprintf(format, args...); !told[words] {
			told[words] = true
			b.t.Errorf("%s: %s", of, words)
		}
	}
	for _, on := range screens() {
		b.Viewport(on.width, on.height)
		for _, scheme := range []string{"light", "dark"} {
			b.Media("screen", scheme)
			Eval[bool](b, settled)
			b.picture(of, on.name, scheme)
			Eval[int](b, unfold)
			if wide := Eval[int64](b, "document.documentElement.scrollWidth"); wide > on.width {
				tell("it is %d pixels wide on %d", wide, on.width)
			}
			for _, found := range b.Axe() {
				tell("%s", found)
			}
			Eval[int](b, fold)
		}
	}
	b.Viewport(screens()[0].width, screens()[0].height)
	b.Media("print", "dark")
	if paper := Eval[string](b, paperColour); paper != "rgb(255, 255, 255)" {
		tell("the paper is %s", paper)
	}
	b.picture(of, "paper", "light")
	b.Media("screen", "light")
	Eval[bool](b, settled)
	b.byKeyboard(of)
}

// unfold opens what is folded, so that axe-core sees it, and fold folds it again. settled waits until a page has drawn
// what it draws anew for another medium.
const (
	unfold = `Array.from(document.querySelectorAll("details:not([open])"), (d) => {
		d.open = true; d.dataset.unfolded = ""; }).length`
	fold = `Array.from(document.querySelectorAll("[data-unfolded]"), (d) => {
		d.open = false; delete d.dataset.unfolded; }).length`
	settled = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
		setTimeout(() => done(true)))))`
)

// paperColour is the background of the page.
const paperColour = `getComputedStyle(document.body).backgroundColor`

func (b *Browser) picture(of, on, scheme string) {
	if dir := os.Getenv("PICTURES"); dir != "" {
		b.Screenshot(fmt.Sprintf("%s/%s-%s-%s.png", dir, of, on, scheme))
	}
}

// Axe returns what axe-core finds in the page that is open, by its rules for WCAG 2 and its best practices: the rule,
// what it wants, and the elements.
func (b *Browser) Axe() []string {
	b.t.Helper()
	if !Eval[bool](b, `"axe" in window`) {
		b.Do("loading axe-core", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: axeSource})
			return err
		}))
	}
	return Eval[[]string](b, `axe.run(document, {preload: false, resultTypes: ["violations"]}).then((found) =>
		found.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 5).map((n) =>
			n.target.join(" ") + " " + n.html.slice(0, 160) + " (" +
			n.any.concat(n.all, n.none).map((c) => c.message).join("; ") + ")").join(" | ")))`)
}

// byKeyboard walks through the page with the Tab key. It reports what can be clicked and is not reached, what shows no
// focus, and a walk that does not come to an end.
func (b *Browser) byKeyboard(of string) {
	b.t.Helper()
	const stops = `a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary, [tabindex="0"]`
	all := Eval[int](b, `(() => {
		let n = 0;
		document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0);
		for (const e of document.querySelectorAll('`+stops+`'))
			if (e.checkVisibility({visibilityProperty: true})) e.dataset.stop = n++;
		return n; })()`)
	reached, first := map[int]bool{}, ""
	for range all + 2 {
		b.Press("\t")
		at := Eval[string](b, `(() => {
			const e = document.activeElement;
			if (!e || e === document.body) return "";
			const s = getComputedStyle(e), own = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0;
			const seen = own || s.boxShadow !== "none" ? "seen" : "unseen";
			return [e.dataset.stop ?? -1, seen, e.outerHTML.slice(0, 120)].join(" "); })()`)
		var stop int
		var seen string
		if _, err := fmt.Sscan(at, &stop, &seen); err != nil {
			break // the focus has left the page
		}
		if seen != "seen" {
			b.t.Errorf("%s: the focus is not seen on %s", of, at)
		}
		if first == "" {
			first = at
		} else if at == first {
			break
		}
		reached[stop] = true
	}
	for stop := range all {
		if !reached[stop] {
			b.t.Errorf("%s: the keyboard does not reach %s", of,
				Eval[string](b, fmt.Sprintf(`document.querySelector('[data-stop="%d"]').outerHTML.slice(0, 160)`, stop)))
		}
	}
}

// The look of a page is compared with its picture in cells of so many pixels, because a machine with other fonts draws
// the same page a little differently. A cell differs if its mean colour is off by more than cellTolerance of 255, and
// so many cells may.
const (
	cellSize      = 24
	cellTolerance = 26
	cellsMayOff   = 0.06
)

// Looks compares what is in view with a picture, such as one of the documentation. With UPDATE_GOLDEN=1, it makes the
// picture.
func (b *Browser) Looks(path string) {
	b.t.Helper()
	taken := ask(b, "taking a picture", chromedp.CaptureScreenshot())
	if os.Getenv("UPDATE_GOLDEN") != "" {
		b.write(path, taken)
		return
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatalf("comparing the look of a page: %v: make the picture with UPDATE_GOLDEN=1", err)
	}
	off, err := apart(kept, taken)
	if err != nil {
		b.t.Fatalf("comparing the look of a page with %s: %v", path, err)
	}
	if off > cellsMayOff {
		b.t.Errorf("%.0f %% of the page look different from %s, and %.0f %% may: look at it, and make the picture again "+
			"with UPDATE_GOLDEN=1", 100*off, path, 100*cellsMayOff)
	}
}

// apart returns the share of cells in which two pictures differ.
func apart(a, b []byte) (float64, error) {
	first, err := png.Decode(bytes.NewReader(a))
	if err != nil {
		return 0, err
	}
	second, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	if first.Bounds() != second.Bounds() {
		return 0, fmt.Errorf("it is %v, and the page %v", first.Bounds().Max, second.Bounds().Max)
	}
	cells, off := 0, 0
	for y := 0; y < first.Bounds().Max.Y; y += cellSize {
		for x := 0; x < first.Bounds().Max.X; x += cellSize {
			at := image.Rect(x, y, x+cellSize, y+cellSize).Intersect(first.Bounds())
			one, other := meanColour(first, at), meanColour(second, at)
			far := func(i int) bool { return max(one[i]-other[i], other[i]-one[i]) > cellTolerance }
			if slices.ContainsFunc([]int{0, 1, 2}, far) {
				off++
			}
			cells++
		}
	}
	return float64(off) / float64(cells), nil
}

// meanColour returns the mean red, green and blue of a part of a picture, 0 to 255.
func meanColour(of image.Image, at image.Rectangle) (out [3]int) {
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			r, g, b, _ := of.At(x, y).RGBA()
			out[0], out[1], out[2] = out[0]+int(r>>8), out[1]+int(g>>8), out[2]+int(b>>8)
		}
	}
	n := max(at.Dx()*at.Dy(), 1)
	return [3]int{out[0] / n, out[1] / n, out[2] / n}
}
