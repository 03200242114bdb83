package document

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"
)

// The parts of a page. PlotScript and PlotStyle are uPlot, for pages with curves. PageScript implements a page's
// controls: search, colours, copying, folding, printing.
var (
	//go:embed assets/uPlot.iife.min.js
	PlotScript string
	//go:embed assets/uPlot.min.css
	PlotStyle string
	//go:embed assets/page.js
	PageScript string

	//go:embed assets/report.css
	reportStyle string
	//go:embed assets/dark.css
	darkColours string
	//go:embed assets/document.js
	figureScript string
	//go:embed assets/timeline.js
	timelineScript string
	//go:embed assets/table.js
	tableScript string
	//go:embed assets/document.html.tmpl
	pageTemplate string
)

// PageStyle returns the style of a page, for light and dark screens and for paper.
func PageStyle() string { return PlotStyle + "\n" + reportStyle + "\n" + darkRules(darkColours) }

// darkRules applies the dark colours if the page was set to dark, or if the reader's system prefers dark and the page
// was not set. Paper stays white.
func darkRules(colours string) string {
	return "@media screen and (prefers-color-scheme: dark) {\n:root:not(.paper):not(.light) {\n" + colours + "}\n}\n" +
		"@media screen {\n:root.dark:not(.paper) {\n" + colours + "}\n}\n"
}

// Policy returns the content security policy of a page. It allows the style and the scripts by their hashes, the
// page's own icon, and nothing else.
func Policy(style string, scripts ...string) string {
	hashes := make([]string, len(scripts))
	for i, script := range scripts {
		hashes[i] = sourceHash(script)
	}
	return "default-src 'none'; style-src " + sourceHash(style) + "; script-src " + strings.Join(hashes, " ") +
		"; img-src data:; base-uri 'none'; form-action 'none'"
}

func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
