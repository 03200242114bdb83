package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// Any input is either refused with a status that gives the reason, or is an order within its limits.
func FuzzOrders(f *testing.F) {
	f.Add("application/json",
		`{"by": "Ada", "spec": {"downstream": {"outage": true}}, "fault": "1", "instance": 1, "instances": 3, "text": "x"}`)
	f.Add("application/x-www-form-urlencoded", "form=key&by=Ada&text=%ff%00")
	f.Add("application/json; charset=\"", "[]")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, kind, content string) {
		r := httptest.NewRequest(http.MethodPost, "/injector/do/note", strings.NewReader(content))
		r.Header.Set("Content-Type", kind)
		order, status, err := readOrder(r)
		if (err == nil) != (status == http.StatusOK) {
			t.Errorf("status %d with %v", status, err)
		}
		if err == nil && (utf8.RuneCountInString(order.Text) > textLimit || utf8.RuneCountInString(order.By) > nameLimit) {
			t.Errorf("%d characters by %d characters were taken", len(order.Text), len(order.By))
		}
	})
}

// However slowly a client reads, it receives every retained event once and in order, and the newest frame.
func TestEveryEventReachesWhoeverReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChannel()
		var at cursor
		published, read, frames := 0, 0, 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for range rapid.IntRange(0, 4).Draw(t, "publications") {
				var events [][]byte
				for range rapid.IntRange(0, 300).Draw(t, "events") {
					events = append(events, []byte(fmt.Sprint(published)))
					published++
				}
				frames++
				c.publish([]byte(fmt.Sprint(frames)), nil, events)
			}
			message, _ := c.news(&at)
			for block := range strings.SplitSeq(string(message), "\n\n") {
				name, data, _ := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
				switch name {
				case "events":
					var got []int
					must.Do(t, json.Unmarshal([]byte(data), &got))
					read = max(read, published-keptEvents)
					for _, event := range got {
						if event != read {
							t.Fatalf("event %d came where %d was due", event, read)
						}
						read++
					}
				case "frame":
					if data != fmt.Sprint(frames) {
						t.Fatalf("frame %s came, the newest is %d", data, frames)
					}
				}
			}
			if read != published {
				t.Fatalf("%d of %d events came", read, published)
			}
		}
	})
}
