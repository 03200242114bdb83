package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/client"
	"github.com/rs/zerolog"
	"github.com/testcontainers/testcontainers-go"
)

// HaveImage pulls the image if the engine does not have it. It tries once: testcontainers would retry for a quarter
// of an hour.
func HaveImage(ctx context.Context, engine *testcontainers.DockerClient, image string, log zerolog.Logger) error {
	_, err := engine.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return fmt.Errorf("looking for image %s: %w", image, err)
	}
	log.Info().Str("image", image).Msg("pulling the image")
	var options client.ImagePullOptions
	// without a login, as for any public image
	if _, login, err := testcontainers.DockerImageAuth(ctx, image); err == nil {
		if options.RegistryAuth, err = authconfig.Encode(login); err != nil {
			return fmt.Errorf("reading the login for image %s: %w", image, err)
		}
	}
	pull, err := engine.ImagePull(ctx, image, options)
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
