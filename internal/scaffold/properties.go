package scaffold

// Settings of Spring and .NET that have their values in a file, or none at all. Both read each of them from the
// environment, too, under a name made from the property's.

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// candidate is a variable that the program reads. Words are those that tell what it is for, joined by _.
type candidate struct {
	name, words, because string
}

var (
	// injected matches a property without a default that code asks for: @Value("${kafka.bootstrap-servers}").
	injected = regexp.MustCompile(`"\$\{([a-z][\w-]*(?:\.[\w-]+)+)\}"`)
	// httpValue and brokersValue match the values of addresses.
	httpValue    = regexp.MustCompile(`^(?:\$\{([A-Z][A-Z0-9_]*):)?https?://`)
	brokersValue = regexp.MustCompile(`^(?:\$\{([A-Z][A-Z0-9_]*):)?[\w.-]+:\d+(?:\s*,\s*[\w.-]+:\d+)*\}?$`)
	// ofFrameworks matches properties whose addresses are those of frameworks, not of services that records are for.
	ofFrameworks = regexp.MustCompile(`^(?:SPRING|EUREKA|MANAGEMENT|SERVER|LOGGING|SPRINGDOC|CAMEL|KESTREL|URLS|SERILOG)_`)
	// dotnetFile matches the files in which .NET has its settings.
	dotnetFile = regexp.MustCompile(`^appsettings[^/]*\.json$`)
	hump       = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// property makes a candidate of one: kafka.bootstrap-servers is read from KAFKA_BOOTSTRAP_SERVERS, and
// pay.baseUrl from PAY_BASEURL, whose words are PAY, BASE and URL.
func property(name, in string) candidate {
	underscored := strings.NewReplacer(".", "_", "-", "_", "[", "_", "]", "")
	return candidate{strings.ToUpper(underscored.Replace(name)),
		strings.ToUpper(underscored.Replace(hump.ReplaceAllString(name, "${1}_${2}"))), name + " in " + in}
}

// dotnetProperty makes a candidate of one of .NET: Payments:Url is read from Payments__Url.
func dotnetProperty(name, in string) candidate {
	of := property(name, in)
	of.because = strings.NewReplacer(".", ":", "[", ":", "]", "").Replace(name) + " in " + in
	of.name = strings.NewReplacer(".", "__", "[", "__", "]", "").Replace(name)
	return of
}

// properties are the settings of a program with Spring or .NET that hold the address of brokers or of a service, and
// those that Spring's code asks for and no file has. Others keep the values that they have.
func properties(sources []source) (all []candidate) {
	for _, one := range sources {
		if dotnetFile.MatchString(path.Base(one.path)) {
			all = append(all, one.addresses(dotnetProperty, map[string]bool{})...)
		}
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return strings.Contains(s.text, "org.springframework") }) {
		return all
	}
	defined := map[string]bool{}
	for _, one := range sources {
		if settingsFile.MatchString(path.Base(one.path)) {
			all = append(all, one.addresses(property, defined)...)
		}
	}
	for _, one := range sources {
		if !codeFile.MatchString(one.path) {
			continue
		}
		for _, name := range oneOf(injected, one.text) {
			if of := property(name, one.path); !defined[of.name] {
				all = append(all, of)
			}
		}
	}
	return all
}

// addresses are the settings in a file that hold the address of brokers or of a service. The names of all are noted as
// defined.
func (s source) addresses(candidateOf func(name, in string) candidate, defined map[string]bool) (all []candidate) {
	for _, setting := range s.settings() {
		of := candidateOf(setting.name, s.path)
		defined[of.name] = true
		switch found := httpValue.FindStringSubmatch(setting.value); {
		case found != nil && !ofFrameworks.MatchString(of.words+"_"):
			if found[1] != "" { // ${PAYMENTS:http://payments}: a variable whose name need not say what it is
				of.name, of.words, of.because = found[1], found[1], "read in "+s.path
			}
			of.words += "_URL"
			all = append(all, of)
		case found == nil && words(brokerWords).MatchString(of.words):
			if found = brokersValue.FindStringSubmatch(setting.value); found == nil {
				continue
			}
			of.name = cmp.Or(found[1], of.name) // ${KAFKA_IP_PORT:localhost:9092}
			all = append(all, of)
		}
	}
	return all
}

type setting struct{ name, value string }

// jsonRemark matches a line that is a comment, which .NET allows in its settings.
var jsonRemark = regexp.MustCompile(`(?m)^\s*//.*$`)

// settings are the properties in a file of settings. What can't be read is left out.
func (s source) settings() (all []setting) {
	if strings.HasSuffix(s.path, ".properties") {
		for line := range strings.Lines(s.text) {
			name, value, found := strings.Cut(line, "=")
			if name = strings.TrimSpace(name); found && name != "" && !strings.ContainsAny(name[:1], "#!") {
				all = append(all, setting{name, strings.TrimSpace(value)})
			}
		}
		return all
	}
	var flatten func(prefix string, value any)
	flatten = func(prefix string, value any) {
		switch v := value.(type) {
		case yaml.MapSlice:
			for _, item := range v {
				if key, is := item.Key.(string); is {
					flatten(strings.TrimPrefix(prefix+"."+key, "."), item.Value)
				}
			}
		case []any:
			for i, item := range v {
				flatten(prefix+"["+strconv.Itoa(i)+"]", item)
			}
		case string:
			all = append(all, setting{prefix, v})
		default:
			all = append(all, setting{name: prefix})
		}
	}
	text := s.text
	if strings.HasSuffix(s.path, ".json") {
		text = jsonRemark.ReplaceAllString(strings.TrimPrefix(text, "\ufeff"), "")
	}
	decoder := yaml.NewDecoder(strings.NewReader(text), yaml.UseOrderedMap())
	for {
		var document any
		if decoder.Decode(&document) != nil {
			return all
		}
		flatten("", document)
	}
}
