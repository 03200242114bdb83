package document

// Trace is what happened to one thing, event by event. A page shows a diagram, and a list with the same content for
// those who can't see the diagram or want every word.
type Trace struct {
	ID string
	// Title is that of the list below the diagram.
	Title   string
	Drawing *Drawing
	Events  []Event
}

// Event is a line of a trace. Times are formatted.
type Event struct {
	// Between stands for what lies between two events, such as a long pause. Then no other field is set.
	Between string
	// Time is when it happened, Delta how long after the event before it.
	Time, Delta string
	Text        string
	Kind        string
	// Marked events contradict each other. Aside has more about the event.
	Marked bool
	Aside  Text
}

// Drawing is a sequence diagram: a lane for each participant, and a row for each event. Numbers are coordinates, in
// CSS pixels if there is room. Lanes lie between Left and Left + Span.
type Drawing struct {
	Width, Height int
	Title         string
	Lanes         []Lane
	Rows          []Step
	Bracket       *Bracket
	Left, Span    int
}

// Lane is a participant. X is the middle of its line, which ends at Bottom. Full is its whole name.
type Lane struct {
	X, HeadX, HeadWidth, Bottom int
	Name, Role, Full, Class     string
}

// Step is one row: an arrow from FromX to ToX, a dot at FromX, or words across all lanes.
type Step struct {
	Class  string
	Marked bool
	Y      int
	// TextY is the position of the words, Top and Tall the stripe of a marked row.
	TextY, Top, Tall int
	Time, Faults     string
	FaultsY          int
	// InForce: a fault was in force.
	InForce    bool
	FromX, ToX int
	Arrow, Dot bool
	// Head is the path of the arrowhead.
	Head   string
	Label  string
	LabelX int
	Anchor string
	// Across is the text across all lanes; "" for an arrow or a dot.
	Across string
}

// Bracket joins the marked rows. Apart is the time between them, written at X and Y.
type Bracket struct {
	Path   string
	X, Y   int
	Apart  string
	Badges []Point
}

// Point is a place in a drawing.
type Point struct{ X, Y int }
