// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/pkg/jsonmessage"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/pause"
)

var fullID = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

// parse reads a reference as Docker names local images: with a digest the tag does not count, without either it is
// "latest".
func parse(ref string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", container.ErrInvalidImageName, ref, err)
	}
	if digested, ok := named.(reference.Digested); ok {
		return reference.WithDigest(reference.TrimNamed(named), digested.Digest())
	}
	return reference.TagNameOnly(named), nil
}

func familiarName(n reference.Named) string { return reference.FamiliarName(n) }

// Image implements container.Runtime.
func (r *Runtime) Image(ctx context.Context, ref string) (*container.Image, error) {
	if fullID.MatchString(ref) {
		found, err := r.client.ImageInspect(ctx, ref)
		if err != nil {
			return nil, engineError(err, "inspecting image %q", ref)
		}
		return imageOf(found), nil
	}
	named, err := parse(ref)
	if err != nil {
		return nil, err
	}
	familiar := reference.FamiliarString(named)
	found, err := r.client.ImageInspect(ctx, familiar)
	if err != nil {
		return nil, engineError(err, "inspecting image %q", ref)
	}
	// A short name may also be the start of some image's id.
	if !slices.Contains(found.RepoTags, familiar) && !slices.Contains(found.RepoDigests, familiar) {
		return nil, fmt.Errorf("inspecting image %q: %w", ref, container.ErrNotFound)
	}
	return imageOf(found), nil
}

func imageOf(i image.InspectResponse) *container.Image {
	out := &container.Image{
		ID: i.ID, RepoTags: i.RepoTags, RepoDigests: i.RepoDigests, SizeBytes: i.Size, CreatedAt: parseTime(i.Created),
	}
	if i.Config != nil {
		out.User, out.StopSignal = i.Config.User, i.Config.StopSignal
	}
	return out
}

// PullImage implements container.Runtime. Errors keep Docker's words, which name the reason (not found, no access, no
// connection). A pull that makes no progress for a minute is given up, as the kubelet's former Docker support did, but not while it waits
// for others that the daemon works on.
func (r *Runtime) PullImage(ctx context.Context, ref string, auth *container.RegistryAuth) (*container.Image, error) {
	named, err := parse(ref)
	if err != nil {
		return nil, err
	}
	var options image.PullOptions
	if auth != nil {
		options.RegistryAuth, err = registry.EncodeAuthConfig(registry.AuthConfig{
			Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken,
			RegistryToken: auth.RegistryToken, ServerAddress: auth.ServerAddress,
		})
		if err != nil {
			return nil, fmt.Errorf("encoding the login for image %q: %w", ref, err)
		}
	}
	if err := r.pull(ctx, named.String(), options); err != nil {
		return nil, err
	}
	return r.Image(ctx, ref)
}

func (r *Runtime) pull(ctx context.Context, name string, options image.PullOptions) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := r.stall
	idle := time.AfterFunc(patience, cancel)
	defer idle.Stop()
	progress, err := r.client.ImagePull(inner, name, options)
	if err == nil {
		defer progress.Close()
		err = followPull(progress, func(queued bool) {
			patience = r.stall
			if queued {
				patience = r.queue
			}
			idle.Reset(patience)
		})
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case inner.Err() != nil:
		return fmt.Errorf("Cancel pulling image %q because of no progress for %s", name, patience) //nolint:staticcheck // as people know it
	}
	return pullError(err)
}

// followPull reads what Docker tells of a pull to its end, and says at each word of it whether the pull waits for others.
func followPull(r io.Reader, told func(queued bool)) error {
	parts := layers{}
	for words := json.NewDecoder(r); ; {
		var m jsonmessage.JSONMessage
		switch err := words.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != nil:
			return m.Error
		}
		parts.note(m.ID, m.Status)
		told(parts.queued())
	}
}

// layers are those of an image that is being pulled, by id, with what Docker last told of each.
type layers map[string]string

func (l layers) note(id, status string) {
	if id != "" && !strings.HasPrefix(status, "Pulling from ") { // which is about the image
		l[id] = status
	}
}

// queued says whether the pull waits for its turn: the daemon downloads a few layers at once, of whatever pulls. None of its own is
// under way then, so that nothing is told until others are done.
func (l layers) queued() bool {
	waits := false
	for _, status := range l {
		switch status {
		case "Waiting":
			waits = true
		case "Already exists", "Download complete", "Pull complete":
		default:
			return false
		}
	}
	return waits
}

// SaveImage implements container.Runtime.
func (r *Runtime) SaveImage(ctx context.Context, ref string, w io.Writer) error {
	found, err := r.Image(ctx, ref)
	if err != nil {
		return err
	}
	named, err := parse(ref)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(r.stall, cancel)
	defer idle.Stop()
	archive, err := r.client.ImageSave(inner, []string{reference.FamiliarString(named)})
	if err == nil {
		defer archive.Close()
		_, err = io.Copy(w, &watched{archive, idle, r.stall})
	}
	if err != nil {
		return engineError(r.stalled(ctx, inner, err), "saving image %q (%s)", ref, found.ID)
	}
	return nil
}

// LoadImage implements container.Runtime.
func (r *Runtime) LoadImage(ctx context.Context, archive io.Reader) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(r.stall, cancel)
	defer idle.Stop()
	loaded, err := r.client.ImageLoad(inner, &watched{archive, idle, r.stall})
	if err == nil {
		defer loaded.Body.Close()
		err = jsonmessage.DisplayJSONMessagesStream(&watched{loaded.Body, idle, r.stall}, io.Discard, 0, false, nil)
	}
	if err != nil {
		return engineError(r.stalled(ctx, inner, err), "loading an image")
	}
	return nil
}

// stalled is the error of something that was given up because it did not get on, if it was.
func (r *Runtime) stalled(ctx, inner context.Context, err error) error {
	if ctx.Err() == nil && inner.Err() != nil {
		return fmt.Errorf("no progress for %s: %w", r.stall, err)
	}
	return err
}

// watched sets a timer back whenever something is read.
type watched struct {
	io.Reader
	idle  *time.Timer
	stall time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.idle.Reset(w.stall)
	}
	return n, err
}

// pullError keeps Docker's words as they are: they become the event and the status that people and programs read. An
// image that a registry does not have is not ErrNotFound, which is about local images.
func pullError(err error) error {
	if sentinel := classify(err); errors.Is(sentinel, container.ErrUnavailable) {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}

// Images implements container.Runtime. User and StopSignal are left out; Image tells them.
func (r *Runtime) Images(ctx context.Context) ([]*container.Image, error) {
	list, err := r.client.ImageList(ctx, image.ListOptions{})
	if err != nil {
		return nil, engineError(err, "listing images")
	}
	out := make([]*container.Image, 0, len(list))
	ids := make(map[string]bool, len(list))
	for _, s := range list {
		ids[s.ID] = true
		none := func(name string) bool { return strings.HasPrefix(name, "<none>") }
		out = append(out, &container.Image{
			ID: s.ID, RepoTags: slices.DeleteFunc(s.RepoTags, none), RepoDigests: slices.DeleteFunc(s.RepoDigests, none),
			SizeBytes: s.Size, CreatedAt: time.Unix(s.Created, 0),
		})
	}
	r.accounts.retain(ids)
	return out, nil
}

// RemoveImage implements container.Runtime. An image that a container uses is not removed, and that is an error.
func (r *Runtime) RemoveImage(ctx context.Context, ref string) error {
	names := []string{ref}
	if fullID.MatchString(ref) {
		// Docker removes by id only what has at most one name.
		found, err := r.client.ImageInspect(ctx, ref)
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return engineError(err, "inspecting image %q", ref)
		}
		// It would also take the names off one that is in use, and only then refuse.
		users, err := r.client.ContainerList(ctx, dockercontainer.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("ancestor", found.ID))})
		if err != nil {
			return engineError(err, "listing the containers of image %q", ref)
		}
		if len(users) > 0 {
			return fmt.Errorf("removing image %q: container %s uses it", ref, users[0].ID)
		}
		names = append(append(slices.Clone(found.RepoTags), found.RepoDigests...), ref)
	}
	for _, name := range names {
		_, err := r.client.ImageRemove(ctx, name, image.RemoveOptions{PruneChildren: true})
		if err != nil && !cerrdefs.IsNotFound(err) {
			return engineError(err, "removing image %q", ref)
		}
	}
	return nil
}

// ImagesInUse implements container.Runtime.
func (r *Runtime) ImagesInUse(ctx context.Context) (map[string]bool, error) {
	list, err := r.client.ContainerList(ctx, dockercontainer.ListOptions{All: true})
	if err != nil {
		return nil, engineError(err, "listing the containers of images")
	}
	used := map[string]bool{}
	for _, c := range list {
		used[c.ImageID] = true
	}
	return used, nil
}

// imageMountAPI is the first API version that mounts images into containers, that of Docker 28.
const imageMountAPI = "1.48"

// ImageLayers implements container.Runtime.
func (r *Runtime) ImageLayers(ctx context.Context, id string) ([]string, error) {
	found, err := r.client.ImageInspect(ctx, id)
	if err != nil {
		return nil, engineError(err, "inspecting image %q", id)
	}
	dirs := layersOf(found)
	switch {
	case len(dirs) == len(found.RootFS.Layers):
		return dirs, nil
	case versions.GreaterThanOrEqualTo(r.client.ClientVersion(), imageMountAPI):
		return nil, fmt.Errorf("layers of image %q with storage driver %s: %w", id, found.GraphDriver.Name, errors.ErrUnsupported)
	}
	return nil, fmt.Errorf("image %q cannot be mounted: that takes Docker 28 or its storage driver overlay2, and not %s", id, found.GraphDriver.Name)
}

// layersOf are the directories that Docker tells of an image. Only drivers of overlays tell any.
func layersOf(i image.InspectResponse) []string {
	var dirs []string
	if top := i.GraphDriver.Data["UpperDir"]; top != "" {
		dirs = append(dirs, top)
	}
	if lower := i.GraphDriver.Data["LowerDir"]; lower != "" {
		dirs = append(dirs, strings.Split(lower, ":")...)
	}
	return dirs
}

// ImageDir implements container.Runtime.
func (r *Runtime) ImageDir(ctx context.Context) (string, error) {
	info, err := r.client.Info(ctx)
	if err != nil {
		return "", engineError(err, "asking the Docker daemon's configuration")
	}
	return info.DockerRootDir, nil
}

// importPause makes the pause image present. Simultaneous callers share one import.
func (r *Runtime) importPause(ctx context.Context) error {
	_, err, _ := r.importing.Do(pause.Image, func() (any, error) {
		found, err := r.client.ImageInspect(ctx, pause.Image)
		if err == nil && found.Config != nil && found.Config.Labels[labelPause] != "" {
			return nil, nil
		}
		if err != nil && !cerrdefs.IsNotFound(err) {
			return nil, engineError(err, "inspecting the pause image")
		}
		content, err := pause.Tar(runtime.GOARCH)
		if err != nil {
			return nil, err
		}
		out, err := r.client.ImageImport(ctx, image.ImportSource{Source: bytes.NewReader(content), SourceName: "-"}, pause.Image, image.ImportOptions{
			Message: "minik8s pause",
			Changes: []string{
				fmt.Sprintf("ENTRYPOINT [%q]", pause.Path),
				"USER " + pause.User,
				"LABEL " + labelPause + "=true",
			},
		})
		if err != nil {
			return nil, engineError(err, "importing the pause image")
		}
		defer out.Close()
		if err := jsonmessage.DisplayJSONMessagesStream(out, io.Discard, 0, false, nil); err != nil {
			return nil, fmt.Errorf("importing the pause image: %w", err)
		}
		return nil, nil
	})
	return err
}

// pauseImages lists the pause images on the daemon, also such as lost their name to a newer one.
func (r *Runtime) pauseImages(ctx context.Context) ([]image.Summary, error) {
	return r.client.ImageList(ctx, image.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelPause))})
}
