package subject

// This file has the faults that change the number of instances.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/dlqbench/dlqbench/faults"
)

// scaleUp starts further instances, all at once. If the fault has a duration, lifting it ends them, ready or not.
// Otherwise they stay, and lifting it waits until they are ready.
func (i *Injector) scaleUp(ctx context.Context, r *round) (faults.Heal, error) {
	numbers, err := i.take(r.spec.ScaleUp)
	if err != nil {
		return nil, err
	}
	up := func(_, acting context.Context) {
		r.err = each(numbers, func(instance int) error {
			if err := r.revive(acting, instance); err != nil {
				return err
			}
			r.strike("process started and ready", 0, instance)
			return nil
		})
	}
	if r.active.For == 0 {
		return r.begin(ctx, up, func(healing context.Context, cut context.CancelFunc) error {
			r.wait(healing, cut)
			return r.err
		}), nil
	}
	return r.begin(ctx, up, func(healing context.Context, cut context.CancelFunc) error {
		cut()
		<-r.done
		defer i.giveBack(numbers)
		return each(numbers, func(instance int) error { return r.takeAway(healing, instance) })
	}), nil
}

// scaleDown ends the last running instances, all at once. Lifting the fault starts them again.
func (i *Injector) scaleDown(ctx context.Context, r *round) (faults.Heal, error) {
	if r.spec.ScaleDown > i.count {
		return nil, fmt.Errorf("there are only %d instances, and %d are to be ended", i.count, r.spec.ScaleDown)
	}
	for instance := i.count - 1; instance >= 0 && len(r.hit) < r.spec.ScaleDown; instance-- {
		if r.subject.Alive(instance) {
			r.hit = append(r.hit, instance)
		}
	}
	down := func(_, acting context.Context) {
		r.err = each(r.hit, func(instance int) error {
			code, err := r.subject.End(acting, instance, syscall.SIGTERM)
			switch {
			case err == nil:
				r.strike("process ended", int64(code), instance)
			case !r.subject.Alive(instance):
				err = nil // the instance ended by itself: the fault did nothing to it
			}
			return err
		})
	}
	return r.begin(ctx, down, func(healing context.Context, cut context.CancelFunc) error {
		r.wait(healing, cut)
		return errors.Join(r.err, each(r.hit, func(instance int) error { return r.revive(healing, instance) }))
	}), nil
}

// takeAway ends an added instance. Its end is an effect only if the instance had ever taken part.
func (r *round) takeAway(ctx context.Context, instance int) error {
	if !r.subject.Alive(instance) {
		return nil
	}
	code, err := r.subject.End(ctx, instance, syscall.SIGTERM)
	switch {
	case err != nil && r.subject.Alive(instance):
		return err
	case err == nil && r.hasStruck(instance):
		r.active.Effect("process ended", 1, int64(code), instance)
	}
	return nil
}

// take reserves the lowest free numbers of further instances.
func (i *Injector) take(count int) (numbers []int, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for number := i.count; number < i.most && len(numbers) < count; number++ {
		if !i.added[number] {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) < count {
		return nil, fmt.Errorf("adding %d instances: the run has room for %d at a time, and too many are added already",
			count, i.most)
	}
	for _, number := range numbers {
		i.added[number] = true
	}
	return numbers, nil
}

func (i *Injector) giveBack(numbers []int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, number := range numbers {
		delete(i.added, number)
	}
}

// each calls do for every instance concurrently, and returns the errors in the order of instances.
func each(instances []int, do func(instance int) error) error {
	errs := make([]error, len(instances))
	var doing sync.WaitGroup
	for n, instance := range instances {
		doing.Go(func() { errs[n] = do(instance) })
	}
	doing.Wait()
	return errors.Join(errs...)
}
