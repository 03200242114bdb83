// Package notify owns the notification of people about dead letters that need them: a webhook for critical failures. It
// knows entries, and nothing about stores, workers and Kafka.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// These are the errors of notifications.
var (
	// ErrQueueFull means that the notification was dropped because the queue is full. The receiver is down or too slow.
	ErrQueueFull = errors.New("the webhook's queue is full: the notification was dropped")
	// ErrClosed means that the webhook was closed.
	ErrClosed = errors.New("the webhook is closed")
)

// Options configure a webhook. Zero fields have defaults.
type Options struct {
	// URL receives a POST for each notification. It is treated as a secret: no error and no log contains it.
	URL string
	// Queue is the maximum number of waiting notifications, default 1000.
	Queue int
	// Attempts is the maximum number of tries per notification, including the first, default 8. The wait between two
	// tries begins at FirstDelay (default 1 s), doubles up to LongestDelay (default 1 min), and is drawn from its upper
	// half.
	Attempts                 int
	FirstDelay, LongestDelay time.Duration
	// Timeout is the limit of one try, default 10 s.
	Timeout time.Duration
	// Transport is http.DefaultTransport if nil.
	Transport http.RoundTripper
	// Failed is called for every notification that was given up. nil ignores them.
	Failed func(entryID string, err error)
}

// Message is the JSON that is posted. It has nothing of the record itself, which may be confidential, and no stack.
type Message struct {
	// Why is what happened: "failed" or "manual" for what workers give up (see Settled).
	Why           string    `json:"why"`
	At            time.Time `json:"at"`
	ID            string    `json:"id"`
	EventID       string    `json:"eventId,omitempty"`
	Pattern       string    `json:"pattern,omitempty"`
	Service       string    `json:"service,omitempty"`
	Topic         string    `json:"topic"`
	Partition     int32     `json:"partition"`
	Offset        int64     `json:"offset"`
	ErrorType     string    `json:"errorType,omitempty"`
	ErrorMessage  string    `json:"errorMessage,omitempty"`
	Priority      int       `json:"priority"`
	DLQRetryCount int       `json:"dlqRetryCount"`
	CreatedAt     time.Time `json:"createdAt"`
}

// longestError is the maximum length of an error's text in a notification, in characters.
const longestError = 1000

// Webhook posts notifications one after another, in the order of their arrival. Close ends it.
type Webhook struct {
	options  Options
	client   *http.Client
	queue    chan Message
	stop     context.CancelFunc
	done     chan struct{}
	lock     sync.Mutex // orders Notify's send and Close's close
	closed   bool
	sent     atomic.Int64
	dropped  atomic.Int64
	failures atomic.Int64
}

// New starts a webhook.
func New(options Options) (*Webhook, error) {
	address, err := url.Parse(options.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, errors.New(
			"configuring the webhook: its URL must be http://… or https://… (it is not shown here: it may hold a secret)")
	}
	options = withDefaults(options)
	ctx, stop := context.WithCancel(context.Background())
	webhook := &Webhook{
		options: options, queue: make(chan Message, options.Queue), stop: stop, done: make(chan struct{}),
		client: &http.Client{
			Transport: options.Transport, Timeout: options.Timeout,
			// Redirects are not followed: otherwise data about a failure could go to another party. A moved receiver
			// needs a new URL here.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	go func() {
		defer close(webhook.done)
		for message := range webhook.queue {
			webhook.deliver(ctx, message)
		}
	}()
	return webhook, nil
}

func withDefaults(options Options) Options {
	for _, field := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&options.FirstDelay, time.Second}, {&options.LongestDelay, time.Minute}, {&options.Timeout, 10 * time.Second}} {
		if *field.value <= 0 {
			*field.value = field.standard
		}
	}
	if options.Queue <= 0 {
		options.Queue = 1000
	}
	if options.Attempts <= 0 {
		options.Attempts = 8
	}
	return options
}

// Notify queues a notification and returns at once. It never waits for the receiver. Errors: ErrQueueFull, ErrClosed.
func (w *Webhook) Notify(ctx context.Context, entry store.Entry, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.closed {
		return ErrClosed
	}
	select {
	case w.queue <- messageOf(entry, why):
		return nil
	default:
		w.dropped.Add(1)
		return ErrQueueFull
	}
}

// Ingested makes the webhook an observer of workers. New entries cause no notification.
func (w *Webhook) Ingested([]store.Entry, int) {}

// Settled notifies about entries that no worker will retry: their retries are used up, or they need a person.
func (w *Webhook) Settled(entry store.Entry, change store.Change) {
	if change.State != store.Failed && change.State != store.Manual {
		return
	}
	if change.Failure != nil {
		entry.Error = *change.Failure
	}
	if change.Retried {
		entry.DLQRetryCount++
	}
	if err := w.Notify(context.Background(), entry, string(change.State)); err != nil {
		w.giveUp(entry.ID, err)
	}
}

func messageOf(entry store.Entry, why string) Message {
	text := []rune(entry.Error.Message)
	return Message{
		Why: why, At: time.Now().UTC(), ID: entry.ID, EventID: entry.EventID, Pattern: entry.Pattern, Service: entry.Service,
		Topic: entry.Source.Topic, Partition: entry.Source.Partition, Offset: entry.Source.Offset,
		ErrorType:    entry.Error.Type,
		ErrorMessage: string(text[:min(len(text), longestError)]), Priority: entry.Priority,
		DLQRetryCount: entry.DLQRetryCount, CreatedAt: entry.CreatedAt,
	}
}

// Counts returns the number of notifications sent, dropped because the queue was full, and given up after all tries.
func (w *Webhook) Counts() (sent, dropped, failed int64) {
	return w.sent.Load(), w.dropped.Load(), w.failures.Load()
}

// Close accepts no more notifications, sends the waiting ones until ctx ends, and gives up the rest.
func (w *Webhook) Close(ctx context.Context) error {
	w.lock.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.lock.Unlock()
	defer w.stop()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		w.stop() // the remaining ones fail at once, each separately
		<-w.done
		return fmt.Errorf("closing the webhook before everything was sent: %w", ctx.Err())
	}
}

// deliver tries until the receiver accepts or refuses the message, or the tries are used up.
func (w *Webhook) deliver(ctx context.Context, message Message) {
	body, err := json.Marshal(message)
	if err != nil {
		w.giveUp(message.ID, fmt.Errorf("writing the notification: %w", err))
		return
	}
	delay := w.options.FirstDelay
	for attempt := 1; ; attempt++ {
		if err = ctx.Err(); err != nil {
			break
		}
		var retry bool
		var asked time.Duration
		if retry, asked, err = w.post(ctx, body); err == nil {
			w.sent.Add(1)
			return
		}
		if !retry || attempt == w.options.Attempts || !wait(ctx, max(asked, delay/2+rand.N(delay/2+1))) {
			break
		}
		delay = min(2*delay, w.options.LongestDelay)
	}
	w.giveUp(message.ID, err)
}

func (w *Webhook) giveUp(entryID string, err error) {
	if !errors.Is(err, ErrQueueFull) {
		w.failures.Add(1)
	}
	if w.options.Failed != nil {
		w.options.Failed(entryID, err)
	}
}

// post makes one try. It returns whether another try may help, and the wait that the receiver asked for.
func (w *Webhook) post(ctx context.Context, body []byte) (retry bool, asked time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.options.URL, bytes.NewReader(body))
	if err != nil {
		return false, 0, errors.New("making the webhook's request: its URL can't be used")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := w.client.Do(request)
	if err != nil {
		return true, 0, fmt.Errorf("posting to the webhook: %w", withoutURL(err))
	}
	defer response.Body.Close()
	const drained = 4 << 10 // allows the connection to be reused
	if _, err := io.CopyN(io.Discard, response.Body, drained); err != nil && !errors.Is(err, io.EOF) {
		return true, 0, fmt.Errorf("reading the webhook's answer: %w", withoutURL(err))
	}
	if response.StatusCode/100 == 2 {
		return false, 0, nil
	}
	err = fmt.Errorf("the webhook answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	retry = response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusRequestTimeout
	return retry, min(retryAfter(response), w.options.LongestDelay), err
}

func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

// withoutURL removes the address from an error of net/http.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// wait reports whether the time elapsed before the context ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
