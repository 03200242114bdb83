package docker

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// The repository's top-level folder.
var topLevel = filepath.Join("..", "..", "..", "..")

type composeService struct {
	Image       string
	Build       string
	Profiles    []string
	Ports       []string
	Environment map[string]string
	Command     []string
	NetworkMode string `yaml:"network_mode"`
	Healthcheck struct{ Test []string }
}

func composeFile(t *testing.T) map[string]composeService {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(topLevel, "docker-compose.yaml")))(t)
	var file struct{ Services map[string]composeService }
	must.Do(t, yaml.Unmarshal(data, &file))
	return file.Services
}

// docker-compose.yaml publishes nothing beyond the loopback, starts only the requested services, and detects when
// they are ready.
func TestCompose(t *testing.T) {
	services := composeFile(t)
	want := map[string]string{"broker-1": "kafka", "broker-2": "kafka", "broker-3": "kafka", "postgres": "stores",
		"mongo": "stores", "dlqbench": "bench", "toxiproxy": "toxiproxy"}
	if got := slices.Sorted(maps.Keys(services)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("services %v", got)
	}
	for name, service := range services {
		if !slices.Equal(service.Profiles, []string{want[name]}) {
			t.Errorf("%s is in profiles %v, want %s", name, service.Profiles, want[name])
		}
		if service.NetworkMode == "host" {
			if !slices.Contains(service.Command, "-host="+loopback) {
				t.Errorf("%s listens beyond the loopback: %v", name, service.Command)
			}
			continue
		}
		if name != "dlqbench" && (len(service.Ports) != 1 || len(service.Healthcheck.Test) == 0) {
			t.Errorf("%s has ports %v and the health check %v", name, service.Ports, service.Healthcheck.Test)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, loopback+":") {
				t.Errorf("%s publishes %s", name, port)
			}
		}
		if variable := strings.HasPrefix(service.Image, "${") && strings.Contains(service.Image, ":-"); !variable {
			t.Errorf("the image of %s can't be chosen: %s", name, service.Image)
		}
	}
}

// The brokers of docker-compose.yaml have the same settings as those that dlqbench starts, as far as they set them,
// and agree on the cluster.
func TestComposeSettings(t *testing.T) {
	services := composeFile(t)
	for number, port := range map[int32]int{1: 19092, 2: 29092, 3: 39092} {
		service := services[alias(number)]
		ours := settings(3, number, "4L6g3nShT-eMCtK--X86sw", port)
		for name, value := range service.Environment {
			if ours[name] != value {
				t.Errorf("%s: %s is %q, and %q where dlqbench starts it", alias(number), name, value, ours[name])
			}
		}
		for _, name := range []string{
			"CLUSTER_ID", "KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_LISTENERS",
			"KAFKA_ADVERTISED_LISTENERS",
			"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "KAFKA_CONTROLLER_LISTENER_NAMES", "KAFKA_INTER_BROKER_LISTENER_NAME",
			"KAFKA_LOG_DIRS",
		} {
			if service.Environment[name] == "" {
				t.Errorf("%s has no %s", alias(number), name)
			}
		}
	}
}

// The compose command itself accepts the file.
func TestComposeConfig(t *testing.T) {
	arguments := []string{"--profile", "kafka", "--profile", "stores", "--profile", "bench", "config", "--quiet"}
	command := exec.Command("docker-compose", arguments...)
	if exec.Command("docker", "compose", "version").Run() == nil {
		command = exec.Command("docker", append([]string{"compose"}, arguments...)...)
	} else if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Skip("skipped: there is neither docker compose nor docker-compose")
	}
	command.Dir = topLevel
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The Dockerfile's image of a prebuilt binary starts as an arbitrary user, and can write to the folder of runs.
func TestDockerfile(t *testing.T) {
	needEngine(t)
	dir := t.TempDir()
	for _, folder := range []string{"runs", "tmp"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "dist", "image", folder), 0o755))
	}
	for _, name := range []string{"Dockerfile", ".dockerignore"} {
		data := must.Get(os.ReadFile(filepath.Join(topLevel, name)))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	run := func(name string, arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(testContext(t), name, arguments...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "DOCKER_BUILDKIT=0")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, arguments, err, out)
		}
		return string(out)
	}
	const image = "dlqbench-test/dlqbench:prebuilt"
	run("go", "build", "-C", topLevel, "-o", filepath.Join(dir, "dist", "image", "dlqbench"), "./cmd/dlqbench")
	run("docker", "build", "-q", "--target", "prebuilt", "-t", image, dir)
	if user := run("docker", "image", "inspect", "-f", "{{.Config.User}}", image); strings.TrimSpace(user) !=
		"65532:65532" {
		t.Errorf("it runs as %s", user)
	}
	// The embedded Kafka needs only the container's network and the folder of runs.
	if out := run("docker", "run", "--rm", "--network", "none", image, "list"); !strings.Contains(out,
		"dlq-publish-failure") {
		t.Errorf("it says %s", out)
	}
}
