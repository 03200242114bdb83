package scenarios

import (
	"fmt"
)

// Need is a program that the subject needs while it runs and that is not judged, such as a cache or a token service.
// One process of it runs for all instances, from before the first one starts until the run is over. Its texts may hold
// templates, and {{.Port}} is its own port. Instances get its address as {{.Needs.NAME}}, 127.0.0.1 with that port.
type Need struct {
	Name    string   `json:"name" jsonschema:"required,pattern=^[a-z][a-z0-9_]{0\\,31}$"`
	Command []string `json:"command" jsonschema:"required,minItems=1"`
	// Dir is where it runs: absolute, or relative to the file; default: the subject's. {{.WorkDir}} is its work folder.
	Dir string            `json:"dir,omitempty"`
	Env map[string]string `json:"env,omitempty"`
	// Files are rendered before the start: path (relative to its work folder, {{.WorkDir}}) to template text.
	Files map[string]string `json:"files,omitempty"`
	// Ready says when it is ready; default: when its port accepts.
	Ready Ready `json:"ready,omitempty"`
	// Once: it does its work and ends, such as a migration of the database. What comes after it starts when it has ended
	// with code 0, within ready.timeout.
	Once bool `json:"once,omitempty"`
}

// Render returns the need with the values in the place of all templates.
func (n Need) Render(values Values) (Need, error) {
	file := SubjectFile{Name: n.Name, Command: n.Command, Env: n.Env, Files: n.Files, Ready: n.Ready, Dir: n.Dir}
	rendered, err := file.Render(values)
	if err != nil {
		return n, err
	}
	n.Command, n.Dir, n.Env, n.Files, n.Ready = rendered.Command, rendered.Dir, rendered.Env, rendered.Files,
		rendered.Ready
	return n, nil
}

// checkNeeds checks the programs that the subject needs, and that only those are named in templates.
func (c *checker) checkNeeds(s *SubjectFile) {
	if s.Kind == KindExternal && c.has("/needs") {
		c.at("/needs", "dlqbench does not start a consumer of kind: external; start what it needs where you start it")
		return
	}
	known := map[string]bool{}
	for i, need := range s.Needs {
		at := fmt.Sprintf("/needs/%d", i)
		c.refuseIf(known[need.Name], at+"/name", "there is a %s already", need.Name)
		known[need.Name] = true
		c.checkReady(at+"/ready", need.Ready)
		c.refuseIf(need.Once && (need.Ready.Log != "" || need.Ready.Port != 0 || need.Ready.URL != ""), at+"/ready",
			"a program that runs once is ready when it has ended; only timeout can be said of that")
		c.checkFiles(at, need.Files)
		c.checkEnv(at)
	}
	c.checkNamed(c.root, "Needs", "needs", known)
}
