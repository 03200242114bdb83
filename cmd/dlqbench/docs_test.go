package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// markdownLink matches [text](target) and ![text](target).
var markdownLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// fencedBlock matches code, which contains no links.
var fencedBlock = regexp.MustCompile("(?s)\n```.*?\n```|`[^`\n]*`")

// links returns the targets of a page's links within the repository: the path of the file from the root, and the
// heading.
func links(t *testing.T, page string) (targets [][2]string) {
	t.Helper()
	for _, match := range markdownLink.FindAllStringSubmatch(fencedBlock.ReplaceAllString(readPage(t, page), ""), -1) {
		if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
			continue
		}
		file, heading, _ := strings.Cut(match[1], "#")
		if file == "" {
			file = path.Base(page)
		}
		targets = append(targets, [2]string{path.Join(path.Dir(page), file), heading})
	}
	return targets
}

// pagesBelow returns the Markdown files below a folder of the repository, without those of installed packages.
func pagesBelow(t *testing.T, folder string) (found []string) {
	t.Helper()
	root := os.DirFS(repositoryRoot)
	must.Do(t, fs.WalkDir(root, folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{"node_modules", ".venv"}, entry.Name()) {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(name, ".md") {
			found = append(found, name)
		}
		return err
	}))
	return found
}

// anchors returns the anchors that GitHub generates for the headings of a page.
func anchors(t *testing.T, page string) (all []string) {
	t.Helper()
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(readPage(t, page)) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			heading = dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			all = append(all, strings.ReplaceAll(heading, " ", "-"))
		}
	}
	return all
}

func TestLinksOfPagesResolve(t *testing.T) {
	t.Parallel()
	checked := append(pagesBelow(t, "docs"), pagesBelow(t, "examples")...)
	checked = append(checked, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
	for _, page := range checked {
		for _, target := range links(t, page) {
			if _, err := os.Stat(filepath.Join(repositoryRoot, target[0])); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, target[0])
				continue
			}
			if target[1] != "" && strings.HasSuffix(target[0], ".md") && !slices.Contains(anchors(t, target[0]), target[1]) {
				t.Errorf("%s links to %s#%s, which is not a heading there", page, target[0], target[1])
			}
		}
	}
}

// The index links every page once. The pages of invariants and faults have generated indexes of their own.
func TestIndexLinksEveryPageOnce(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	counts := map[string]int{}
	_, body, _ := strings.Cut(readPage(t, index), "\n## ")
	for _, match := range markdownLink.FindAllStringSubmatch(body, -1) {
		counts[path.Join("docs", match[1])]++
	}
	for _, page := range pagesBelow(t, "docs") {
		generated := strings.HasPrefix(page, "docs/invariants/") || strings.HasPrefix(page, "docs/faults/")
		if page == index || generated && path.Base(page) != "README.md" {
			continue
		}
		if counts[page] != 1 {
			t.Errorf("%s links %s %d times, want once", index, page, counts[page])
		}
	}
}

// Every command and flag that README.md and the tutorial print exists.
func TestPrintedCommandsExist(t *testing.T) {
	t.Parallel()
	printed := regexp.MustCompile(`(?m)^    (?:\$ )?(?:\./)?dlqbench ([^…\n]*)$`)
	for _, page := range []string{"README.md", "docs/test-your-own-consumer.md", "docs/install.md"} {
		for _, match := range printed.FindAllStringSubmatch(readPage(t, page), -1) {
			for line := range strings.SplitSeq(match[1], " && ") {
				line, _, _ = strings.Cut(strings.TrimPrefix(line, "dlqbench "), "  ") // a description follows
				checkPrinted(t, page, strings.Fields(line))
			}
		}
	}
}

// checkPrinted parses the words of a command line without executing it.
func checkPrinted(t *testing.T, page string, words []string) {
	t.Helper()
	command, rest, err := (&app{}).root().Find(words)
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err != nil {
		t.Errorf("%s: dlqbench %s: %v", page, strings.Join(words, " "), err)
	}
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(repositoryRoot, page)))(t)
	return string(text)
}
