package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/containerd/errdefs"
	"github.com/cpuguy83/dockercfg"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	apiregistry "github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
	"github.com/rs/zerolog"
)

// HaveImage pulls the image if the engine does not have it.
func HaveImage(ctx context.Context, engine *client.Client, image string, log zerolog.Logger) error {
	_, err := engine.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return fmt.Errorf("looking for image %s: %w", image, err)
	}
	log.Info().Str("image", image).Msg("pulling the image")
	access, err := login(image)
	if err != nil {
		return fmt.Errorf("reading the login for image %s: %w", image, err)
	}
	pull, err := engine.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: access})
	if err == nil {
		err = errors.Join(pull.Wait(ctx), pull.Close())
	}
	if ctx.Err() != nil {
		return fmt.Errorf("pulling image %s: %w", image, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("there is no image %s, and it can't be pulled (%w): load or build it, or name one that is there",
			image, err)
	}
	return nil
}

// login is the docker command's login at the image's registry, as the engine takes it; "" for none, as for any public
// image. It is in the configuration file, in a program that keeps such secrets, or in DOCKER_AUTH_CONFIG, which has the
// file's form.
func login(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err
	}
	var config dockercfg.Config
	if text := os.Getenv("DOCKER_AUTH_CONFIG"); text != "" {
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			return "", fmt.Errorf("reading DOCKER_AUTH_CONFIG: %w", err)
		}
	} else if config, err = dockercfg.LoadDefaultConfig(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	registry := dockercfg.ResolveRegistryHost(reference.Domain(named))
	for key := range config.AuthConfigs { // older versions of docker wrote a URL
		if parsed, err := url.Parse(key); err == nil && parsed.Host == registry {
			registry = key
		}
	}
	user, secret, err := config.GetRegistryCredentials(registry)
	if err != nil || secret == "" {
		return "", nil //nolint:nilerr // a public image needs no login; what others need the registry says
	}
	auth := apiregistry.AuthConfig{ServerAddress: registry, Username: user, Password: secret}
	if user == "" {
		auth.Password, auth.IdentityToken = "", secret
	}
	return authconfig.Encode(auth)
}
