package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/internal/campaign"
	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/kube"
)

// kubernetesFlags are the flags of --on kubernetes, but --image.
type kubernetesFlags struct {
	namespace, context, kubeconfig, image string
	patience                              time.Duration
	dryRun                                bool
}

const (
	defaultPatience = 5 * time.Minute
	// pollEvery is the interval at which the cluster is asked.
	pollEvery = 2 * time.Second
)

func (k *kubernetesFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&k.namespace, "namespace", "", "kubernetes: namespace (default: that of the context)")
	flags.StringVar(&k.context, "context", "", "kubernetes: context of the kubeconfig (default: the current one)")
	flags.StringVar(&k.kubeconfig, "kubeconfig", "", "kubernetes: kubeconfig file (default: that of kubectl)")
	flags.DurationVar(&k.patience, "patience", defaultPatience,
		"kubernetes: how long to wait while no pod can run or the API server is away")
	flags.BoolVar(&k.dryRun, "dry-run", false, "kubernetes: print the manifests and the Role without using a cluster")
}

// words are the flags as a user would write them, without defaults.
func (k kubernetesFlags) words() (words []string) {
	for _, flag := range []struct{ name, value string }{
		{"--namespace", k.namespace}, {"--context", k.context}, {"--kubeconfig", k.kubeconfig}, {"--image", k.image},
	} {
		if flag.value != "" {
			words = append(words, flag.name, quoteWord(flag.value))
		}
	}
	if k.patience != defaultPatience {
		words = append(words, "--patience", k.patience.String())
	}
	return words
}

// kubectl is the user's, for the cluster that the flags select.
func (k kubernetesFlags) kubectl() kube.Kubectl {
	var selected []string
	for _, flag := range []struct{ name, value string }{
		{"--namespace", k.namespace}, {"--context", k.context}, {"--kubeconfig", k.kubeconfig},
	} {
		if flag.value != "" {
			selected = append(selected, flag.name+"="+flag.value)
		}
	}
	return kube.Kubectl{Program: "kubectl", Flags: selected}
}

// kubernetes is the cluster that the flags select.
func (p *plannedCampaign) kubernetes(forecasts map[int]gate.Forecast, flags campaignFlags) campaign.Kubernetes {
	var limit time.Duration
	for _, forecast := range forecasts {
		limit = max(limit, limitOf(forecast))
	}
	if flags.kubernetes.image != "" {
		p.suite.Kubernetes.Image = flags.kubernetes.image
	}
	return campaign.Kubernetes{
		Manifest: campaign.Manifest{Suite: p.suite, Cells: p.cells, Parallel: flags.parallel, Limit: limit,
			KeepPassed: flags.keepPassed},
		Kubectl: flags.kubernetes.kubectl(), Folder: p.folder, Fresh: flags.fresh,
		Patience: flags.kubernetes.patience, Poll: pollEvery,
	}
}

// roleComment stands above the Role that --dry-run prints.
const roleComment = `# The rights of the person or the service account that runs the command. It does not create
# this Role.
# An administrator grants it once: kubectl create rolebinding %[1]s --role %[1]s --user NAME
# The pods need no rights.`

// printManifests prints what a campaign creates, and the Role that creating it takes.
func (a *app) printManifests(manifest campaign.Manifest, cells []campaign.Cell) error {
	files, job, err := manifest.Objects(cells)
	if err != nil {
		return usageError{err}
	}
	return a.printObjects(true, "dlqbench-campaign", []any{campaign.Role(), files, job})
}

// printObjects prints objects as YAML, after a comment if the first is the Role.
func (a *app) printObjects(withRole bool, role string, objects []any) error {
	var errs []error
	for i, one := range objects {
		text, err := yaml.MarshalWithOptions(one, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
		head := "---"
		if i == 0 && withRole {
			head = fmt.Sprintf(roleComment, role)
		}
		_, printErr := fmt.Fprintf(a.stdout, "%s\n%s", head, text)
		errs = append(errs, err, printErr)
	}
	return errors.Join(errs...)
}
