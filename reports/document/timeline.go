package document

import (
	"encoding/json"
	"math"
)

// Timeline is a group of charts over one time axis, drawn on a page. A reader moves and zooms all of them together, and
// can have their curves as a table. Times are in seconds.
type Timeline struct {
	Time   []Number `json:"time"`
	End    Number   `json:"end"`
	Charts []Chart  `json:"charts"`
	// Windows are shaded, Phases are separated, and Marks are shown as moments, in all charts.
	Windows []Window `json:"windows"`
	Phases  []Window `json:"phases"`
	Marks   []Moment `json:"marks"`
	// Key explains the shades and marks.
	Key Text `json:"-"`
}

// Number is a number in JSON. NaN, for a missing measurement, becomes null, which is a gap in a curve.
type Number float64

// MarshalJSON writes null for what is not a number.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

// Window is a stretch of time with a name. The other times are NaN if they are not known: when it was planned, when it
// was noticed, and when all was steady again.
type Window struct {
	Label       string `json:"label"`
	Name        string `json:"name"`
	From        Number `json:"from"`
	To          Number `json:"to"`
	PlannedFrom Number `json:"plannedFrom"`
	PlannedTo   Number `json:"plannedTo"`
	Noticed     Number `json:"noticed"`
	Steady      Number `json:"steady"`
}

// Moment is a time with a name.
type Moment struct {
	At   Number `json:"at"`
	Name string `json:"name"`
}

// Chart is one chart of a timeline. Its curves are written in Unit, on a logarithmic scale with Log, over Heat if there
// is one. A chart without a title is not drawn: its curves are only in the table.
type Chart struct {
	ID     string  `json:"id"`
	Title  string  `json:"title"`
	Unit   string  `json:"unit"`
	Height int     `json:"height"`
	Log    bool    `json:"log"`
	Heat   *Heat   `json:"heat,omitempty"`
	Curves []Curve `json:"curves"`
}

// Curve is a curve of a chart, with a value for each time. Colour is a name of the page's style.
type Curve struct {
	Label  string   `json:"label"`
	Colour string   `json:"colour"`
	Values []Number `json:"values"`
	// Column is its title in the table, where Mean ones are averaged and of others the highest value is shown. Without
	// it, the table leaves the curve out.
	Column string `json:"column,omitempty"`
	Mean   bool   `json:"mean,omitempty"`
	// Right curves have an axis of their own, without a unit. Hidden ones appear when the reader asks for them.
	Right  bool `json:"right,omitempty"`
	Hidden bool `json:"hidden,omitempty"`
	Area   bool `json:"area,omitempty"`
	Dashed bool `json:"dashed,omitempty"`
	Strong bool `json:"strong,omitempty"`
}

// Heat is a heat map of counts. Step is the width of its columns; Bounds are those of its rows, in the unit of the
// chart. Cells are column, row and count of those that are not empty, one after the other.
type Heat struct {
	Step   Number   `json:"step"`
	Bounds []Number `json:"bounds"`
	Most   int64    `json:"most"`
	Cells  []int64  `json:"cells"`
}
