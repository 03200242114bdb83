package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// wantDiskTrouble runs a scenario in which the disk fails, and expects a sentence about it and exit code 3.
func wantDiskTrouble(t *testing.T, out, message string) {
	t.Helper()
	code, output := dlqbench(t, folder(t), "run", "tiny.yaml", "--quiet", "--out", out)
	if code != exitEnvironment || !strings.Contains(output, message) {
		t.Errorf("the exit code is %d, want %d and %q:\n%s", code, exitEnvironment, message, output)
	}
	if strings.Contains(output, "goroutine ") {
		t.Errorf("it panicked:\n%s", output)
	}
	if strings.Contains(output, "persist to disk") {
		t.Errorf("it complains that data which it is about to remove can't be written:\n%s", output)
	}
	if runs, _ := filepath.Glob(filepath.Join(out, "*", "kafka")); len(runs) > 0 {
		t.Errorf("the brokers' data is left: %v", runs)
	}
}

// The disk becomes full at different times: while the plan is written, while the brokers start, and during the load.
// Only a superuser can create such a disk.
func TestDiskTrouble(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only the superuser can mount a small disk; TestFileSizeLimit makes writing fail for everyone")
	}
	for _, size := range []string{"16k", "48k", "96k", "144k"} {
		t.Run(size, func(t *testing.T) {
			disk := t.TempDir()
			if err := syscall.Mount("none", disk, "tmpfs", 0, "size="+size); err != nil {
				t.Skipf(
					"SKIPPED: this superuser may not mount a small disk (%v); TestFileSizeLimit makes writing fail for everyone", err)
			}
			defer func() {
				if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			}()
			wantDiskTrouble(t, filepath.Join(disk, "runs"), "no space left on device")
		})
	}
	t.Run("read-only", func(t *testing.T) {
		disk := t.TempDir()
		if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
			t.Skipf("SKIPPED: this superuser may not mount a disk (%v); the script folders tries it as another user", err)
		}
		defer func() {
			if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}()
		wantDiskTrouble(t, filepath.Join(disk, "runs"), "read-only file system")
	})
}
