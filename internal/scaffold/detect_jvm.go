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
	var project struct {
		ArtifactID string   `xml:"artifactId"`
		Version    string   `xml:"version"`
		Parent     string   `xml:"parent>version"`
		FinalName  string   `xml:"build>finalName"`
		Modules    []string `xml:"modules>module"`
	}
	if err := xml.Unmarshal([]byte(r.read(file)), &project); err != nil {
		p.Command = anyJar("target")
		p.note("this pom.xml can't be read, so the jar is a guess")
		return p
	}
	for _, text := range []*string{&project.ArtifactID, &project.Version, &project.Parent, &project.FinalName} {
		*text = strings.TrimSpace(*text)
	}
	p.Name = project.ArtifactID
	if len(project.Modules) > 0 {
		p.Command = anyJar(path.Join(strings.TrimSpace(r.program(project.Modules)), "target"))
		p.note("it has several modules (" + strings.Join(project.Modules, ", ") + "): choose the consumer's")
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
	if strings.Contains(r.read(file), "quarkus-maven-plugin") {
		p.Command = []string{"java", "-jar", "target/quarkus-app/quarkus-run.jar"}
		return p
	}
	p.Command = []string{"java", "-jar", "target/" + jar + ".jar"}
	p.note("the jar must be one that java -jar can run (spring-boot-maven-plugin, maven-shade-plugin)")
	return p
}

// program is the first module whose jar java -jar can run, or else the first one.
func (r repository) program(modules []string) string {
	at := slices.IndexFunc(modules, func(module string) bool {
		return runnable.MatchString(r.read(path.Join(strings.TrimSpace(module), "pom.xml")))
	})
	return modules[max(at, 0)]
}

var runnable = regexp.MustCompile(`spring-boot-maven-plugin|maven-shade-plugin`)

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
