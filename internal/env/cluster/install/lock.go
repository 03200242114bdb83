package install

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is the interval at which a lock held by another process is tried.
const lockPoll = 100 * time.Millisecond

// Lock waits until no other process holds the lock file. It holds the lock until release is called or this process
// ends, however it ends. The file stays: removing it would let two processes hold locks on two files of the same
// name.
func Lock(ctx context.Context, path string) (release func(), err error) {
	lock := flock.New(path, flock.SetPermissions(0o644))
	_, err = lock.TryLockContext(ctx, lockPoll)
	switch {
	case err == nil:
		return func() { _ = lock.Close() }, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("waiting for another process that holds %s: %w", path, context.Cause(ctx))
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}
