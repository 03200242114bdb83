package reports

import "fmt"

// PlotLibrary returns the script and the style of uPlot, which the report draws with, for other pages that draw curves.
func PlotLibrary() (script, style []byte, err error) {
	script, err = embedded.ReadFile("assets/uPlot.iife.min.js")
	if err != nil {
		return nil, nil, fmt.Errorf("reading the plot library: %w", err)
	}
	style, err = embedded.ReadFile("assets/uPlot.min.css")
	if err != nil {
		return nil, nil, fmt.Errorf("reading the plot library: %w", err)
	}
	return script, style, nil
}
