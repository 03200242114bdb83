package document

import (
	"encoding/json"
	"math"
	"strconv"
)

// Words are a text in the data that scripts draw. It is made visible when it is encoded.
type Words string

// MarshalJSON makes the text visible.
func (w Words) MarshalJSON() ([]byte, error) { return json.Marshal(Visible(string(w), Whole)) }

// Numbers are encoded with six significant digits, more than a screen shows. NaN, for a missing measurement, becomes
// null, which is a gap in a curve.
type Numbers []float64

// MarshalJSON writes the numbers as an array.
func (n Numbers) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, v := range n {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, v, 'g', 6, 64)
		}
	}
	return append(out, ']'), nil
}

// Timeline is a group of charts over one time axis, drawn on a page. A reader moves and zooms all of them together, and
// can have their curves as a table. Markdown has charts only with InMarkdown, because each of them is large. Times are
// in seconds.
type Timeline struct {
	InMarkdown bool `json:"-"`

	Time   Numbers `json:"time"`
	End    float64 `json:"end"`
	Charts []Chart `json:"charts"`
	// Windows are shaded, Phases are separated, and Marks are shown as moments, in all charts.
	Windows []Window `json:"windows"`
	Phases  []Window `json:"phases"`
	Marks   []Moment `json:"marks"`
	// Key explains the shades and marks.
	Key Text `json:"-"`
}

// Window is a stretch of time with a name. Planned is when it should have begun and ended. It was noticed, and all was
// steady again, at times that may be unknown.
type Window struct {
	Label   Words    `json:"label"`
	Name    Words    `json:"name"`
	From    float64  `json:"from"`
	To      float64  `json:"to"`
	Planned Numbers  `json:"planned"`
	Noticed *float64 `json:"noticed"`
	Steady  *float64 `json:"steady"`
}

// Moment is a time with a name.
type Moment struct {
	At   float64 `json:"at"`
	Name Words   `json:"name"`
}

// Chart is one chart of a timeline. Its curves are written in Unit, on a logarithmic scale with Log, over Heat if there
// is one. A chart without a title is not drawn: its curves are only in the table.
type Chart struct {
	ID     string  `json:"id"`
	Title  string  `json:"-"`
	Unit   string  `json:"unit"`
	Height int     `json:"height"`
	Log    bool    `json:"log"`
	Heat   *Heat   `json:"heat,omitempty"`
	Curves []Curve `json:"curves"`
}

// Curve is a curve of a chart, with a value for each time. Colour is a name of the page's style.
type Curve struct {
	Label  Words   `json:"label"`
	Colour string  `json:"colour"`
	Values Numbers `json:"values"`
	// Column is its title in the table, where Mean ones are averaged and of others the highest value is shown. Without
	// it, the table leaves the curve out.
	Column Words `json:"column,omitempty"`
	Mean   bool  `json:"mean,omitempty"`
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
	Step   float64 `json:"step"`
	Bounds Numbers `json:"bounds"`
	Most   int64   `json:"most"`
	Cells  []int64 `json:"cells"`
}
