package scaffold

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// installsNode are the lock files of JavaScript's package managers and what installs from them.
func installsNode(r repository) (manager string, install string) {
	switch r.found("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lockb", "bun.lock") {
	case "pnpm-lock.yaml":
		return "pnpm", "pnpm install --frozen-lockfile"
	case "yarn.lock":
		return "yarn", "yarn install --frozen-lockfile"
	case "bun.lockb", "bun.lock":
		return "bun", "bun install --frozen-lockfile"
	case "":
		return "npm", "npm install --no-audit --no-fund"
	}
	return "npm", "npm ci --no-audit --no-fund"
}

// plainNode matches a start script that ends with node and its arguments: nothing for a shell to do. What comes before
// sets variables, such as NODE_ENV=production or dotenv -e .env --.
var plainNode = regexp.MustCompile(`^(?:(.*) )?(node(?: +[A-Za-z0-9_./=:@-]+)+)$`)

func proposeNode(r repository, file string) Proposal {
	p := Proposal{Setup: "actions/setup-node@v4\n        with: {node-version: lts/*}"}
	var described struct {
		Name    string            `json:"name"`
		Main    string            `json:"main"`
		Scripts map[string]string `json:"scripts"`
	}
	if err := json.Unmarshal([]byte(r.read(file)), &described); err != nil {
		p.note("this package.json can't be read, so how it is started is a guess")
	}
	p.Name = described.Name
	manager, build := installsNode(r)
	if manager == "npm" && strings.Contains(r.read(file), `"workspace:`) { // which npm does not know
		manager, build = "pnpm", "pnpm install --frozen-lockfile"
	}
	if described.Scripts["build"] != "" {
		build += " && " + manager + " run build"
	}
	p.Build = []string{"sh", "-c", build}
	script := "start"
	if described.Scripts["start:prod"] != "" { // NestJS's start compiles first, and runs the service below it
		script = "start:prod"
	}
	start := strings.TrimSpace(described.Scripts[script])
	entry := r.found("consumer.js", "src/consumer.js", "index.js", "src/index.js")
	switch plain := plainNode.FindStringSubmatch(start); {
	case plain != nil && !strings.ContainsAny(plain[1], "&|;"):
		p.Command = strings.Fields(plain[2])
		if plain[1] != "" {
			p.note("the start script has more before node (" + plain[1] + "): what that sets goes into env")
		}
	case start != "":
		if p.Command = p.nodeInImage(r, "node"); p.Command != nil {
			break
		}
		p.Command = []string{manager, "run", script}
		p.note("a package manager in between may keep signals from the consumer: starting node itself is better")
	case described.Main != "":
		p.Command = []string{"node", described.Main}
	case entry != "":
		p.Command = []string{"node", entry}
	default:
		if p.Command = p.nodeInImage(r, "node", "npm", "npx", "yarn", "pnpm", "bun", "tsx"); p.Command != nil {
			break
		}
		p.Command = []string{"node", "consumer.js"}
		p.note("package.json has neither a start script nor main: write which file it is")
	}
	return p
}

// nodeInImage is the command of a Dockerfile that starts one of these programs, nil if there is none.
func (p *Proposal) nodeInImage(r repository, programs ...string) []string {
	for _, one := range r.dockerStarts() {
		if slices.Contains(programs, one.words[0]) {
			p.note("the command is that of " + one.file)
			return here(one.words)
		}
	}
	return nil
}

var (
	pyName   = regexp.MustCompile(`(?m)^name\s*=\s*["']([^"']+)["']`)
	pyScript = regexp.MustCompile(`(?m)^["']?([A-Za-z0-9_.-]+)["']?\s*=\s*["'{]`)
)

func proposePython(r repository, file string) Proposal {
	p := Proposal{Setup: "actions/setup-python@v5\n        with: {python-version: \"3.x\"}"}
	text := ""
	if file == "pyproject.toml" {
		text = r.read(file)
	}
	for _, heading := range []string{"project", "tool.poetry"} {
		if name := pyName.FindStringSubmatch(section(text, heading)); name != nil && p.Name == "" {
			p.Name = name[1]
		}
	}
	tool, install := ".venv/bin/",
		"test -x .venv/bin/pip || python3 -m venv .venv; .venv/bin/pip install --quiet --disable-pip-version-check "
	switch {
	case r.has("uv.lock"):
		install = "uv sync --frozen --quiet"
	case r.has("poetry.lock"):
		install = "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction --quiet"
	case r.has("requirements.txt"):
		install += "-r requirements.txt"
	default:
		install += "."
	}
	p.Build = []string{"sh", "-c", install}
	script := pyScript.FindStringSubmatch(section(text, "project.scripts"))
	if script == nil {
		script = pyScript.FindStringSubmatch(section(text, "tool.poetry.scripts"))
	}
	entry := r.found("consumer.py", "worker.py", "main.py", "app.py", "src/consumer.py", "src/main.py")
	switch {
	case script != nil && (file == "pyproject.toml" && !strings.Contains(install, "-r requirements.txt")):
		p.Command = []string{tool + script[1]}
	case entry != "":
		p.Command = []string{tool + "python", entry}
	default:
		if p.Command = p.pythonStart(r, tool); p.Command != nil {
			break
		}
		p.Command = []string{tool + "python", "-m", strings.ReplaceAll(subjectName(p.Name, r.name), "-", "_")}
		p.note("neither a script nor a Dockerfile nor a program such as worker.py or main.py was found: write how it is " +
			"started")
	}
	return p
}
