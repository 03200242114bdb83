package measure

import "time"

const (
	mostColumns = 300
	mostRows    = 64
)

// heatMap merges the points' sketches to at most mostColumns columns, and their parts to at most mostRows rows.
func (s *series) heatMap() HeatMap {
	every := (len(s.points) + mostColumns - 1) / mostColumns
	if every == 0 {
		return HeatMap{Step: s.step}
	}
	var columns []*sketch
	first, last := len(sketch{}), -1
	for from := 0; from < len(s.points); from += every {
		var column *sketch
		for i := from; i < min(from+every, len(s.points)); i++ {
			if s.points[i].latencies == nil {
				continue
			}
			if column == nil {
				column = new(sketch)
			}
			column.merge(s.points[i].latencies)
		}
		columns = append(columns, column)
		low, high := column.extent()
		first, last = min(first, low), max(last, high)
	}
	out := HeatMap{Step: s.step * time.Duration(every), Counts: make([][]int64, len(columns))}
	if last < 0 {
		return out
	}
	parts := rowParts(first, last)
	lowest := rowOf(first, parts)
	for row := lowest; row <= rowOf(last, parts)+1; row++ {
		out.Bounds = append(out.Bounds, rowFrom(row, parts))
	}
	for i, column := range columns {
		out.Counts[i] = column.rows(len(out.Bounds)-1, lowest, parts)
	}
	return out
}

// extent returns the first and the last index with a count, or none for both.
func (s *sketch) extent() (first, last int) {
	first, last = len(sketch{}), -1
	if s == nil {
		return first, last
	}
	for i, count := range s {
		if count > 0 {
			first, last = min(first, i), i
		}
	}
	return first, last
}

// rows returns the counts by row, or nothing if there are none.
func (s *sketch) rows(count, lowest, parts int) []int64 {
	if s == nil {
		return nil
	}
	out := make([]int64, count)
	for i, n := range s {
		if n > 0 {
			out[rowOf(i, parts)-lowest] += int64(n)
		}
	}
	return out
}

// rowParts returns how many parts of the sketch make a row: an eighth of a doubling, or more if that makes too many
// rows.
func rowParts(first, last int) int {
	parts := sketchParts / 8
	for rowOf(last, parts)-rowOf(first, parts)+1 > mostRows {
		parts *= 2
	}
	return parts
}

// rowOf returns the row of an index of the sketch. Values below sketchParts microseconds are in row 0.
func rowOf(index, parts int) int {
	if index < sketchParts {
		return 0
	}
	return (index-sketchParts)/parts + 1
}

// rowFrom returns the shortest latency of the row.
func rowFrom(row, parts int) time.Duration {
	if row == 0 {
		return 0
	}
	index := sketchParts + (row-1)*parts
	doubling := index/sketchParts - 1
	return time.Duration(uint64(index-doubling*sketchParts)<<doubling) * time.Microsecond
}
