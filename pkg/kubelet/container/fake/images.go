// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// normalize gives a reference its full form (docker.io/library/x:latest).
func normalize(ref string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", container.ErrInvalidImageName, ref, err)
	}
	return reference.TagNameOnly(named), nil
}

// newImage makes an image whose id and digest follow from its reference.
func newImage(named reference.Named) *container.Image {
	img := &container.Image{ID: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("image "+named.String()))), SizeBytes: 1 << 20}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("digest "+named.String())))
	if d, ok := named.(reference.Digested); ok {
		digest = d.Digest().String()
	} else {
		img.RepoTags = []string{reference.FamiliarString(named)}
	}
	img.RepoDigests = []string{reference.FamiliarName(named) + "@" + digest}
	return img
}

// AddImage makes an image of that reference present locally and returns it; change edits it first, if not nil.
// It panics on a reference that does not parse, as only a test can pass one.
func (r *Runtime) AddImage(ref string, change func(*container.Image)) *container.Image {
	named, err := normalize(ref)
	if err != nil {
		panic(err)
	}
	img := newImage(named)
	if change != nil {
		change(img)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[img.ID] = img
	out := *img
	return &out
}

// Publish makes a reference pullable, with that login if auth is not nil.
func (r *Runtime) Publish(ref string, auth *container.RegistryAuth) {
	named, err := normalize(ref)
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published[named.String()] = published{image: newImage(named), auth: auth}
}

// lookup finds a local image by id or reference, nil if none. The caller holds r.mu.
func (r *Runtime) lookup(ref string) *container.Image {
	if img := r.images[ref]; img != nil {
		return img
	}
	named, err := normalize(ref)
	if err != nil {
		return nil
	}
	for _, img := range r.images {
		if slices.Contains(img.RepoTags, reference.FamiliarString(named)) || slices.Contains(img.RepoDigests, reference.FamiliarString(named)) {
			return img
		}
	}
	return nil
}

// Image implements container.Runtime.
func (r *Runtime) Image(ctx context.Context, ref string) (*container.Image, error) {
	if err := r.begin(ctx, Call{Op: "Image", ID: ref}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if img := r.lookup(ref); img != nil {
		out := *img
		return &out, nil
	}
	if !strings.HasPrefix(ref, "sha256:") {
		if _, err := normalize(ref); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("image %q: %w", ref, container.ErrNotFound)
}

// PullImage implements container.Runtime.
func (r *Runtime) PullImage(ctx context.Context, ref string, auth *container.RegistryAuth) (*container.Image, error) {
	if err := r.begin(ctx, Call{Op: "PullImage", ID: ref, Arg: auth}); err != nil {
		return nil, err
	}
	named, err := normalize(ref)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.published[named.String()]
	if !ok {
		if !r.config.PullAll {
			return nil, fmt.Errorf("manifest for %s not found: manifest unknown: manifest unknown", ref)
		}
		p = published{image: newImage(named)}
	}
	if p.auth != nil && (auth == nil || auth.Username != p.auth.Username || auth.Password != p.auth.Password) {
		return nil, fmt.Errorf("pull access denied for %s, repository does not exist or may require 'docker login': denied: requested access to the resource is denied", reference.FamiliarName(named))
	}
	if r.images[p.image.ID] == nil {
		img := *p.image
		r.images[img.ID] = &img
	}
	out := *r.images[p.image.ID]
	return &out, nil
}

// SaveImage implements container.Runtime: the archive is the image in JSON.
func (r *Runtime) SaveImage(ctx context.Context, ref string, w io.Writer) error {
	img, err := r.Image(ctx, ref)
	if err == nil {
		err = json.NewEncoder(w).Encode(img)
	}
	return err
}

// LoadImage implements container.Runtime.
func (r *Runtime) LoadImage(ctx context.Context, archive io.Reader) error {
	if err := r.begin(ctx, Call{Op: "LoadImage"}); err != nil {
		return err
	}
	data, err := io.ReadAll(archive)
	img := &container.Image{}
	if err == nil {
		err = json.Unmarshal(data, img)
	}
	if err != nil {
		return fmt.Errorf("loading an image: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[img.ID] = img
	return nil
}

// Images implements container.Runtime.
func (r *Runtime) Images(ctx context.Context) ([]*container.Image, error) {
	if err := r.begin(ctx, Call{Op: "Images"}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*container.Image
	for _, img := range r.images {
		c := *img
		out = append(out, &c)
	}
	return out, nil
}

// RemoveImage implements container.Runtime.
func (r *Runtime) RemoveImage(ctx context.Context, ref string) error {
	if err := r.begin(ctx, Call{Op: "RemoveImage", ID: ref}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if img := r.lookup(ref); img != nil {
		delete(r.images, img.ID)
	}
	return nil
}

// ImagesInUse implements container.Runtime: those of containers made here and those told to UseImage.
func (r *Runtime) ImagesInUse(ctx context.Context) (map[string]bool, error) {
	if err := r.begin(ctx, Call{Op: "ImagesInUse"}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	used := maps.Clone(r.foreign)
	for _, p := range r.containers {
		if img := r.lookup(p.config.Image); img != nil {
			used[img.ID] = true
		}
	}
	return used, nil
}

// UseImage lets a container that is not of this node use the image with that id, or not any more.
func (r *Runtime) UseImage(id string, used bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.foreign, id)
	if used {
		r.foreign[id] = true
	}
}

// ImageLayers implements container.Runtime: what LayImage was told, or else it is unsupported.
func (r *Runtime) ImageLayers(ctx context.Context, id string) ([]string, error) {
	if err := r.begin(ctx, Call{Op: "ImageLayers", ID: id}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.images[id] == nil {
		return nil, fmt.Errorf("image %q: %w", id, container.ErrNotFound)
	}
	dirs, ok := r.layers[id]
	if !ok {
		return nil, fmt.Errorf("layers of image %q: %w", id, errors.ErrUnsupported)
	}
	return slices.Clone(dirs), nil
}

// LayImage says which directories the image with that id is made of, the topmost first.
func (r *Runtime) LayImage(id string, dirs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.layers[id] = dirs
}

// ImageDir implements container.Runtime.
func (r *Runtime) ImageDir(ctx context.Context) (string, error) {
	if err := r.begin(ctx, Call{Op: "ImageDir"}); err != nil {
		return "", err
	}
	return "/", nil
}
