package scaffold

import (
	"encoding/xml"
	"path"
	"regexp"
	"slices"
	"strings"
)

// javaSetup installs a JDK; which version is for the user to say.
const javaSetup = "actions/setup-java@v4\n        with: {distribution: temurin, java-version: \"21\"}"

// anyJar starts the only jar of a folder. The shell is gone when Java runs, so that signals reach it.
func anyJar(folder string) []string {
	return []string{"sh", "-c", "exec java -jar " + folder + "/*.jar"}
}

func proposeMaven(r repository, file string) Proposal {
	p := Proposal{Setup: javaSetup}
	maven := "mvn"
	if r.has("mvnw") {
		maven = "./mvnw"
	}
	p.Build = []string{maven, "-B", "-q", "-DskipTests", "package"}
	project, err := r.maven(".")
	if err != nil {
		p.Command = anyJar("target")
		p.note("this pom.xml can't be read, so the jar is a guess")
		return p
	}
	p.Name = project.ArtifactID
	if len(project.Modules) > 0 {
		programs := r.mavenPrograms(".", project.Modules)
		if len(programs) > 1 {
			p.note("it has several programs (" + strings.Join(programs, ", ") + "): choose the consumer")
		} else {
			p.note("it has several modules (" + strings.Join(project.Modules, ", ") + "): choose the consumer's")
		}
		p.Command = r.runsJar(append(programs, project.Modules...)[0])
		return p
	}
	jar := project.FinalName
	if jar == "" {
		number := project.Version
		if number == "" {
			number = project.Parent
		}
		jar = project.ArtifactID + "-" + number
	}
	if strings.Contains(jar, "${") || strings.HasSuffix(jar, "-") || strings.HasPrefix(jar, "-") {
		p.Command = anyJar("target")
		p.note("the jar's name depends on properties: one jar in target/ is expected")
		return p
	}
	if strings.Contains(r.read(file), quarkusPlugin) {
		p.Command = r.runsJar(".")
		return p
	}
	p.Command = []string{"java", "-jar", "target/" + jar + ".jar"}
	p.note("the jar must be one that java -jar can run (spring-boot-maven-plugin, maven-shade-plugin)")
	return p
}

// mavenProject is what a pom.xml says.
type mavenProject struct {
	ArtifactID string   `xml:"artifactId"`
	Version    string   `xml:"version"`
	Parent     string   `xml:"parent>version"`
	FinalName  string   `xml:"build>finalName"`
	Modules    []string `xml:"modules>module"`
}

// maven reads the pom.xml in a folder.
func (r repository) maven(folder string) (project mavenProject, err error) {
	if err := xml.Unmarshal([]byte(r.read(path.Join(folder, "pom.xml"))), &project); err != nil {
		return project, err
	}
	for _, text := range []*string{&project.ArtifactID, &project.Version, &project.Parent, &project.FinalName} {
		*text = strings.TrimSpace(*text)
	}
	for i := range project.Modules {
		project.Modules[i] = strings.TrimSpace(project.Modules[i])
	}
	return project, nil
}

const quarkusPlugin = "quarkus-maven-plugin"

// runnable matches what makes a jar that java -jar can run.
var runnable = regexp.MustCompile(`spring-boot-maven-plugin|maven-shade-plugin|` + quarkusPlugin)

// mavenPrograms are the modules below a folder, and their modules, whose jar java -jar can run. The consumer's comes
// first, if something shows which it is.
func (r repository) mavenPrograms(folder string, modules []string) (programs []string) {
	for _, module := range modules {
		inner := path.Join(folder, module)
		if inner == folder || folder != "." && !strings.HasPrefix(inner, folder+"/") {
			continue // only what is further down, so that this ends
		}
		project, err := r.maven(inner)
		switch {
		case err != nil && !r.has(path.Join(inner, "pom.xml")):
		case len(project.Modules) > 0:
			programs = append(programs, r.mavenPrograms(inner, project.Modules)...)
		case runnable.MatchString(r.read(path.Join(inner, "pom.xml"))):
			programs = append(programs, inner)
		}
	}
	slices.SortStableFunc(programs, r.likelier)
	return programs
}

// runsJar starts the jar of a module.
func (r repository) runsJar(folder string) []string {
	if strings.Contains(r.read(path.Join(folder, "pom.xml")), quarkusPlugin) {
		return []string{"java", "-jar", path.Join(folder, "target/quarkus-app/quarkus-run.jar")}
	}
	return anyJar(path.Join(folder, "target"))
}

var gradleName = regexp.MustCompile(`rootProject\.name\s*=\s*["']([^"']+)["']`)

// applicationPlugin matches what applies Gradle's application plugin, as Groovy and as Kotlin write it.
var applicationPlugin = regexp.MustCompile(
	`(?m)id\s*\(?\s*["']application["']|^\s*application\s*$|apply plugin:\s*["']application["']`)

func proposeGradle(r repository, file string) Proposal {
	p := Proposal{Setup: javaSetup, Name: r.name}
	gradle := "gradle"
	if r.has("gradlew") {
		gradle = "./gradlew"
	}
	if name := gradleName.FindStringSubmatch(r.read(r.found("settings.gradle", "settings.gradle.kts"))); name != nil {
		p.Name = name[1]
	}
	switch text := r.read(file); {
	case strings.Contains(text, "org.springframework.boot"):
		p.Build, p.Command = []string{gradle, "-q", "bootJar"}, anyJar("build/libs")
		p.note("one jar in build/libs/ is expected")
	case applicationPlugin.MatchString(text):
		// The start script ends with exec, so that signals reach Java.
		p.Build, p.Command = []string{gradle, "-q", "installDist"},
			[]string{path.Join("build/install", p.Name, "bin", p.Name)}
	default:
		p.Build, p.Command = []string{gradle, "-q", "assemble"}, anyJar("build/libs")
		p.note("neither the application plugin nor Spring Boot was found: the jar must be one that java -jar can run")
	}
	return p
}
