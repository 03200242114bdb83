package clients_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// strangers is where the consumers in the proof keep their libraries, which their build scripts install.
const strangers = "../strangers"

// installed builds the stranger, and skips the test where that can't be done here.
func installed(t *testing.T, name, script string) (dir string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(strangers, name))
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("sh", script)
	build.Dir = dir
	if output, err := build.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: what %s needs can not be installed: %v\n%s", name, err, output)
	}
	return dir
}

func (r *rig) arguments() []string {
	return []string{r.bootstrap, r.input, r.output, r.group, strconv.Itoa(records), "classic"}
}

// TestOtherClients: what speaks the protocol by code of its own.
func TestOtherClients(t *testing.T) {
	needKafka(t)
	c := startCluster(t)
	for name, command := range map[string]func(*testing.T, *rig) *exec.Cmd{
		"aiokafka": func(t *testing.T, r *rig) *exec.Cmd {
			dir := installed(t, "aiokafka", "../venv.sh")
			return exec.Command(filepath.Join(dir, ".venv", "bin", "python"),
				append([]string{filepath.Join("testdata", "aio.py")}, r.arguments()...)...)
		},
		"sarama": func(t *testing.T, r *rig) *exec.Cmd {
			source, err := filepath.Abs(filepath.Join("testdata", "sarama", "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(t.TempDir(), "sarama")
			if output, err := exec.Command("go", "build", "-C", filepath.Join(strangers, "sarama"), "-o", program,
				source).CombinedOutput(); err != nil {
				t.Skipf("SKIPPED: sarama can not be built: %v\n%s", err, output)
			}
			return exec.Command(program, r.arguments()...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.newRig(t)
			r.exercise(t, command(t, r))
			r.expectGroup(t)
		})
	}
}
