// One consumer that can behave in many ways, all of them legal: the variable MODE names one of those in modes.go. Its
// contracts, in the folder subjects, are written by it: go run . -subjects subjects.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

func main() {
	subjects := flag.String("subjects", "", "write the subject files into this folder, and end")
	flag.Parse()
	if *subjects != "" {
		if err := writeSubjects(*subjects); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := run(os.Getenv("MODE")); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR", err)
		os.Exit(1)
	}
}

func run(name string) error {
	all := modes()
	at := slices.IndexFunc(all, func(m mode) bool { return m.name == name })
	if at < 0 {
		return fmt.Errorf("there is no mode %q: MODE must name one of those in modes.go", name)
	}
	s := standard()
	all[at].change(&s)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	sleep(ctx, s.slowStart)
	log := newLogger(s.log)
	if s.log == healthOnly {
		go func() { log.Info(fmt.Sprint(http.ListenAndServe("127.0.0.1:"+os.Getenv("HEALTH_PORT"), log))) }()
	}
	var members []*member
	for i := range s.members {
		m, err := newMember(s, i, log)
		if err != nil {
			return fmt.Errorf("starting member %d: %w", i, err)
		}
		members = append(members, m)
	}
	var group sync.WaitGroup
	for _, m := range members {
		group.Go(func() { m.consume(ctx) })
	}
	group.Wait()
	log.Info("stopped")
	return nil
}

// sleep reports whether it slept all the time.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
