package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "T0KEN-in-the-path"

// receiver gives the configured answers and records the times of the requests.
type receiver struct {
	sync.Mutex
	answers []func() (*http.Response, error)
	asked   []time.Time
	bodies  []Message
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	r.Lock()
	defer r.Unlock()
	r.asked = append(r.asked, time.Now())
	if request.Body == nil { // a followed redirect
		return status(200, "")()
	}
	var message Message
	if err := json.NewDecoder(request.Body).Decode(&message); err != nil {
		return nil, err
	}
	r.bodies = append(r.bodies, message)
	if len(r.answers) == 0 {
		return status(200, "")()
	}
	answer := r.answers[0]
	r.answers = r.answers[1:]
	return answer()
}

func status(code int, retryAfter string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		header := http.Header{}
		if code/100 == 3 {
			header.Set("Location", "https://elsewhere.example.org/")
		}
		if retryAfter != "" {
			header.Set("Retry-After", retryAfter)
		}
		return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader("x"))}, nil
	}
}

func broken() (*http.Response, error) { return nil, errors.New("connection reset") }

func entry(id string) store.Entry {
	return store.Entry{
		ID: id, Service: "payment-service", Source: store.Place{Topic: "orders", Partition: 3, Offset: 42}, DLQRetryCount: 4,
		Value: []byte("confidential"),
		Error: store.Failure{Type: "TIMEOUT_ERROR", Message: strings.Repeat("é", 2000), Stack: "at confidential"},
	}
}

func start(t *testing.T, options Options) *Webhook {
	t.Helper()
	options.URL = "https://hooks.example.org/" + secret
	webhook := must.Get(New(options))(t)
	return webhook
}

func closeNow(t *testing.T, webhook *Webhook) {
	t.Helper()
	if err := webhook.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The wait between two tries doubles from its first value to its maximum, is drawn from the upper half, and is at least
// as long as the receiver asks for.
func TestRetriesWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answers: []func() (*http.Response, error){status(503, ""), broken, status(429, "7"), status(500, ""),
			status(502, "")}}
		webhook := start(t, Options{Transport: r, FirstDelay: time.Second, LongestDelay: 8 * time.Second})
		must.Do(t, webhook.Notify(t.Context(), entry("a"), "failed"))
		closeNow(t, webhook)
		bounds := [][2]time.Duration{{500 * time.Millisecond, time.Second}, {time.Second, 2 * time.Second},
			{7 * time.Second, 7 * time.Second}, {4 * time.Second, 8 * time.Second}, {4 * time.Second, 8 * time.Second}}
		if len(r.asked) != 6 {
			t.Fatalf("asked %d times, not 6", len(r.asked))
		}
		for i, bound := range bounds {
			if gap := r.asked[i+1].Sub(r.asked[i]); gap < bound[0] || gap > bound[1] {
				t.Errorf("gap %d is %s, not %s to %s", i+1, gap, bound[0], bound[1])
			}
		}
		if sent, dropped, failed := webhook.Counts(); sent != 1 || dropped != 0 || failed != 0 {
			t.Errorf("%d sent, %d dropped, %d failed", sent, dropped, failed)
		}
	})
}

func TestGivesUp(t *testing.T) {
	for name, test := range map[string]struct {
		answers []func() (*http.Response, error)
		asked   int
		says    string
	}{
		"after its tries":   {slices.Repeat([]func() (*http.Response, error){status(503, "")}, 9), 3, "503"},
		"where it can't be": {slices.Repeat([]func() (*http.Response, error){broken}, 9), 3, "connection reset"},
		"at once, refused":  {[]func() (*http.Response, error){status(404, "")}, 1, "404"},
		"at a redirect":     {[]func() (*http.Response, error){status(302, "")}, 1, "302"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				r := &receiver{answers: test.answers}
				webhook := start(t, Options{Transport: r, Attempts: 3, Failed: func(id string, err error) {
					told = append(told, id+": "+err.Error())
				}})
				must.Do(t, webhook.Notify(t.Context(), entry("a"), "failed"))
				closeNow(t, webhook)
				if len(r.asked) != test.asked || len(told) != 1 || !strings.Contains(told[0], test.says) ||
					strings.Contains(told[0], secret) {
					t.Errorf("asked %d times, told %q", len(r.asked), told)
				}
				if _, _, failed := webhook.Counts(); failed != 1 {
					t.Errorf("%d failed", failed)
				}
			})
		})
	}
}

// A receiver that hangs delays nothing else. Notifications that do not fit in the queue are dropped and counted.
func TestNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := &receiver{answers: []func() (*http.Response, error){func() (*http.Response, error) {
			<-release
			return status(200, "")()
		}}}
		webhook := start(t, Options{Transport: r, Queue: 2, Timeout: time.Hour})
		begun := time.Now()
		var errs []error
		for _, id := range []string{"first", "b", "c", "d", "e"} {
			errs = append(errs, webhook.Notify(t.Context(), entry(id), "failed"))
			synctest.Wait() // the first leaves the queue, then nothing moves
		}
		want := []error{nil, nil, nil, ErrQueueFull, ErrQueueFull}
		if !slices.Equal(errs, want) || time.Since(begun) != 0 {
			t.Errorf("got %v after %s", errs, time.Since(begun))
		}
		close(release)
		closeNow(t, webhook)
		if sent, dropped, _ := webhook.Counts(); sent != 3 || dropped != 2 {
			t.Errorf("%d sent, %d dropped", sent, dropped)
		}
		if err := webhook.Notify(t.Context(), entry("late"), "failed"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Close gives up the notifications that it cannot send in time, and reports each.
func TestCloseHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		r := &receiver{answers: slices.Repeat([]func() (*http.Response, error){status(503, "")}, 100)}
		webhook := start(t, Options{Transport: r, Failed: func(id string, _ error) { told = append(told, id) }})
		for _, id := range []string{"a", "b", "c"} {
			must.Do(t, webhook.Notify(t.Context(), entry(id), "failed"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := webhook.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed with %v", err)
		}
		if !slices.Equal(told, []string{"a", "b", "c"}) {
			t.Errorf("told of %v", told)
		}
	})
}

// Only entries that no worker retries cause a notification, with their content after the change.
func TestSettledNotifiesOfCriticalFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		webhook := start(t, Options{Transport: r})
		for _, state := range store.States() {
			change := store.Change{State: state, Retried: true, Failure: &store.Failure{Type: "Last", Message: "again"}}
			webhook.Settled(entry(string(state)), change)
		}
		closeNow(t, webhook)
		if len(r.bodies) != 2 {
			t.Fatalf("%d notifications", len(r.bodies))
		}
		for i, why := range []string{"failed", "manual"} {
			if got := r.bodies[i]; got.Why != why || got.ID != why || got.DLQRetryCount != 5 ||
				got.ErrorType != "Last" || got.Topic != "orders" || got.Offset != 42 {
				t.Errorf("got %+v", got)
			}
		}
	})
}

// A real receiver gets a POST with JSON that contains neither the record nor the stack, and an error text cut to an
// acceptable length.
func TestPostsJSON(t *testing.T) {
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request.Method + " " + request.URL.Path + " " + request.Header.Get("Content-Type") + " " + string(body)
	}))
	defer server.Close()
	webhook := must.Get(New(Options{URL: server.URL + "/hook", Transport: server.Client().Transport}))(t)
	must.Do(t, webhook.Notify(t.Context(), entry("a"), "failed"))
	closeNow(t, webhook)
	posted := <-got
	if !strings.HasPrefix(posted, `POST /hook application/json {"why":"failed"`) ||
		strings.Contains(posted, "confidential") || strings.Count(posted, "é") != longestError {
		t.Errorf("posted %s", posted)
	}
}

func TestAddressIsNeverShown(t *testing.T) {
	for _, address := range []string{"", "ftp://h/" + secret, "://" + secret, "https:///" + secret,
		"http://h/%zz" + secret} {
		webhook, err := New(Options{URL: address})
		if err == nil {
			closeNow(t, webhook)
			t.Errorf("%q was taken", address)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the address: %v", err)
		}
	}
}
