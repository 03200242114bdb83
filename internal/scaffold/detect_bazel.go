package scaffold

// What Bazel builds.

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// bazelFile matches the files with rules of a folder, and bazelProgram a rule that makes a program.
	bazelFile    = regexp.MustCompile(`^BUILD(?:\.bazel)?$`)
	bazelProgram = regexp.MustCompile(`\b(?:java|kt_jvm|scala|go|py|rust|cc|nodejs|js)_binary\(\s*name\s*=\s*` +
		`["']([\w./-]+)["']`)
)

// program is one that a rule makes.
type program struct{ folder, name string }

func proposeBazel(r repository, _ string) Proposal {
	p := Proposal{Build: []string{"bazel", "build", "//src:consumer"}, Command: []string{"bazel-bin/src/consumer"}}
	all := r.bazelPrograms()
	if len(all) == 0 {
		p.note("no rule that makes a program was found: write which it is")
		return p
	}
	label := func(one program) string { return "//" + strings.TrimPrefix(one.folder, ".") + ":" + one.name }
	p.Build[2], p.Command[0] = label(all[0]), path.Join("bazel-bin", all[0].folder, all[0].name)
	if len(all) > 1 {
		var labels []string
		for _, one := range all {
			labels = append(labels, label(one))
		}
		p.note("there are several programs (" + strings.Join(labels, ", ") + "): choose the consumer")
	}
	return p
}

// bazelPrograms are those of all folders, the likeliest consumer first.
func (r repository) bazelPrograms() (all []program) {
	for name := range r.files(r.foreign) {
		if bazelFile.MatchString(path.Base(name)) {
			for _, one := range oneOf(bazelProgram, r.read(name)) {
				all = append(all, program{path.Dir(name), one})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b program) int { return r.likelier(a.folder, b.folder) })
	return all
}
