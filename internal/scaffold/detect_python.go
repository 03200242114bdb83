package scaffold

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// pyEntry matches the names of files that are programs, and pyMain what a file has that is one.
	pyEntry = regexp.MustCompile(`^(?:__main__|main|app|server|run|start|\w*(?:consumer|worker|listener|processor))\.py$`)
	pyMain  = regexp.MustCompile(`(?m)^if\s+__name__\s*==\s*["']__main__["']`)
	// pyApp matches an application that a server of ASGI runs.
	pyApp = regexp.MustCompile(`(?m)^(\w+)(?:\s*:\s*\w+)?\s*=\s*(?:\w+\.)?(?:FastAPI|Starlette|Litestar)\(`)
	// pyImport matches an import of a package by its whole name.
	pyImport = regexp.MustCompile(`(?m)^(?:from|import)\s+(\w+)`)
	// python matches what starts Python in an image.
	python = regexp.MustCompile(`^(?:/usr/(?:local/)?bin/)?python(?:3(?:\.\d+)?)?$`)
)

// pythonStart is how a program below the top is started, nil if none was found: as a Dockerfile says, or else as its
// code lets one think.
func (p *Proposal) pythonStart(r repository, tool string) (command []string) {
	for _, one := range r.dockerStarts() {
		if command = p.pythonInImage(r, one, tool); command != nil {
			p.note("the command is that of " + one.file)
			p.Others = folders(r.pythonEntries())
			return command
		}
	}
	entries := r.pythonEntries()
	if len(entries) == 0 {
		return nil
	}
	entry := entries[0]
	if len(entries) > 1 {
		p.note("there are several programs (" + strings.Join(entries[:min(len(entries), mostNamed)], ", ") +
			"): choose the consumer")
	}
	p.Folder, p.Others = path.Dir(entry), folders(entries[1:])
	root := r.pythonRoot(entry)
	name, _ := strings.CutPrefix(entry, root+"/")
	module := strings.TrimSuffix(strings.ReplaceAll(strings.TrimSuffix(name, ".py"), "/", "."), ".__main__")
	if root != p.Folder || root == "." {
		p.pythonPath(root)
	}
	text := r.read(entry)
	if app := pyApp.FindStringSubmatch(text); app != nil && !pyMain.MatchString(text) {
		if root == p.Folder {
			p.pythonPath(root)
		}
		return []string{tool + "uvicorn", module + ":" + app[1], "--host", "127.0.0.1", "--port", "{{.Port}}"}
	}
	if root == p.Folder {
		return []string{tool + "python", entry}
	}
	return []string{tool + "python", "-m", module}
}

// mostNamed bounds the programs that a note names.
const mostNamed = 5

// pythonPath is where a program finds its packages, unless that is the top.
func (p *Proposal) pythonPath(root string) {
	if root != "." {
		p.Set = append(p.Set, Address{Variable{"PYTHONPATH", "where the packages of the program are"}, root})
	}
}

// pythonInImage is the command of a Dockerfile for this machine, nil if it is not one of Python, or of no file here.
func (p *Proposal) pythonInImage(r repository, of start, tool string) []string {
	words := of.words
	if python.MatchString(words[0]) {
		words = slices.DeleteFunc(slices.Clone(words[1:]), func(word string) bool { return word == "-u" })
		if len(words) > 1 && words[0] == "-m" {
			if p.pythonModule(r, words[1], of) {
				return append([]string{tool + "python"}, here(words)...)
			}
			words = words[1:] // one that is installed, such as uvicorn
		}
	}
	if len(words) == 0 {
		return nil
	}
	if strings.HasSuffix(words[0], ".py") {
		_, file, found := r.locate(words[0], of)
		if !found {
			return nil
		}
		p.Folder = path.Dir(file)
		return append([]string{tool + "python", file}, here(words[1:])...)
	}
	if !slices.Contains([]string{"uvicorn", "gunicorn", "hypercorn", "faust", "faststream"}, words[0]) {
		return nil
	}
	for _, word := range words[1:] {
		module, _, isApp := strings.Cut(word, ":")
		if isApp && p.pythonModule(r, module, of) {
			return append([]string{tool + words[0]}, here(words[1:])...)
		}
	}
	return nil
}

// pythonModule takes a module of the repository as the program, and reports whether there is one.
func (p *Proposal) pythonModule(r repository, module string, of start) bool {
	of.folder = "/"
	file := strings.ReplaceAll(module, ".", "/")
	for _, name := range []string{file + ".py", file + "/__main__.py"} {
		if root, file, found := r.locate(name, of); found {
			p.pythonPath(root)
			p.Folder = path.Dir(file)
			return true
		}
	}
	return false
}

// pythonEntries are the files that are programs, the likeliest to be a consumer first: those that are named so and have
// what programs have, and else those that only have it.
func (r repository) pythonEntries() (entries []string) {
	var others []string
	foreign := func(folder string) bool {
		return r.foreign(folder) || slices.Contains([]string{"scripts", "migrations"}, path.Base(folder))
	}
	for name := range r.files(foreign) {
		base := path.Base(name)
		if testFile.MatchString(base) || !strings.HasSuffix(base, ".py") {
			continue
		}
		text := r.read(name)
		switch runs := base == "__main__.py" || pyMain.MatchString(text); {
		case runs && pyEntry.MatchString(base) || base == "main.py" && pyApp.MatchString(text):
			entries = append(entries, name)
		case runs:
			others = append(others, name)
		}
	}
	if len(entries) == 0 {
		entries = others
	}
	slices.SortStableFunc(entries, r.likelierFile)
	return entries
}

// likelierFile is as likelier, of files.
func (r repository) likelierFile(a, b string) int {
	return cmp.Or(sounds(b)-sounds(a), r.reads(path.Dir(b))-r.reads(path.Dir(a)))
}

// pythonRoot is the folder in which a program finds the packages that it imports: one above it that has one of them,
// the lowest first, or its own.
func (r repository) pythonRoot(entry string) string {
	imports := oneOf(pyImport, r.read(entry))
	own := path.Dir(entry)
	for folder := own; ; folder = path.Dir(folder) {
		if slices.ContainsFunc(imports, func(name string) bool {
			return r.has(path.Join(folder, name)) || r.has(path.Join(folder, name+".py"))
		}) {
			return folder
		}
		if folder == "." {
			break
		}
	}
	// One that imports only its neighbours relatively is started by its package.
	root := own
	for root != "." && r.has(path.Join(root, "__init__.py")) && strings.Contains(r.read(entry), "\nfrom .") {
		root = path.Dir(root)
	}
	return root
}

// folders are those of files.
func folders(files []string) (all []string) {
	for _, file := range files {
		if folder := path.Dir(file); !slices.Contains(all, folder) {
			all = append(all, folder)
		}
	}
	return all
}
