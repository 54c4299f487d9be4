// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/moby/sys/user"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// accounts are an image's users and groups: its /etc/passwd and /etc/group.
type accounts struct{ passwd, group []byte }

// maxAccounts bounds each of the two files, in bytes.
const maxAccounts = 1 << 20

// identify finds out who is meant by a user and groups of a container. Docker does so itself, but adds the groups that the image gives
// to the user if, and only if, no group comes with the user; upstream's runtimes do as the pod says (KEP-3619).
func identify(spec string, groups []int64, strict bool, a accounts) (*container.User, error) {
	find := func(spec string) (*user.ExecUser, error) {
		return user.GetExecUser(spec, nil, bytes.NewReader(a.passwd), bytes.NewReader(a.group))
	}
	found, err := find(spec)
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(spec, ":")
	member, err := find(name) // who has the image's groups
	if err != nil {
		return nil, err
	}
	all := append([]int64{int64(found.Gid)}, groups...)
	if !strict {
		for _, g := range member.Sgids {
			all = append(all, int64(g))
		}
	}
	slices.Sort(all)
	return &container.User{UID: int64(found.Uid), GID: int64(found.Gid), Groups: slices.Compact(all)}, nil
}

// become makes a container one of that user, and notes it.
func become(u *container.User, config *dockercontainer.Config, host *dockercontainer.HostConfig) error {
	config.User = fmt.Sprintf("%d:%d", u.UID, u.GID)
	host.GroupAdd = nil
	for _, g := range u.Groups {
		if g != u.GID { // which Docker adds
			host.GroupAdd = append(host.GroupAdd, strconv.FormatInt(g, 10))
		}
	}
	text, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("noting the user of a container: %w", err)
	}
	config.Labels[labelUser] = string(text)
	return nil
}

// userOf is who a container was made for, nil if that is not known.
func userOf(labels map[string]string) *container.User {
	var u container.User
	if json.Unmarshal([]byte(labels[labelUser]), &u) != nil {
		return nil
	}
	return &u
}

// readAccounts reads the users and groups of a container's image. Docker reads files of containers only, so one is made for it that
// has the name and the labels of the container to come, but its hash: if this process is killed, whoever makes the container replaces
// it, and whoever removes the pod removes it.
func (r *Runtime) readAccounts(ctx context.Context, name string, labels map[string]string, c container.ContainerConfig) (accounts, error) {
	config := &dockercontainer.Config{Image: c.Image, Entrypoint: []string{"/"}, NetworkDisabled: true, Labels: maps.Clone(labels)}
	delete(config.Labels, labelHash)
	host := &dockercontainer.HostConfig{LogConfig: r.logConfig(), NetworkMode: "none"}
	id, err := r.create(ctx, name, config, host, func(dockercontainer.InspectResponse) bool { return false })
	if err != nil {
		return accounts{}, err
	}
	var a accounts
	if a.passwd, err = r.readFile(ctx, id, "/etc/passwd"); err == nil {
		a.group, err = r.readFile(ctx, id, "/etc/group")
	}
	if err = errors.Join(err, r.remove(ctx, id)); err != nil {
		return accounts{}, fmt.Errorf("reading the users of image %q: %w", c.ImageRef, err)
	}
	r.accounts.put(c.Image, a)
	return a, nil
}

// readFile reads a regular file of a container, or what a link leads to in it; nothing if there is none.
func (r *Runtime) readFile(ctx context.Context, id, path string) ([]byte, error) {
	for range 2 {
		stream, stat, err := r.client.CopyFromContainer(ctx, id, path)
		if cerrdefs.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, engineError(err, "reading %s", path)
		}
		data, header, err := firstFile(stream)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		case header.Typeflag == tar.TypeReg:
			return data, nil
		case header.Typeflag != tar.TypeSymlink:
			return nil, fmt.Errorf("reading %s: it is no file", path)
		}
		path = stat.LinkTarget // which Docker has followed to its end
	}
	return nil, nil // it leads nowhere
}

func firstFile(stream io.ReadCloser) ([]byte, *tar.Header, error) {
	defer stream.Close()
	archive := tar.NewReader(stream)
	header, err := archive.Next()
	if err != nil {
		return nil, nil, err
	}
	if header.Size > maxAccounts {
		return nil, nil, fmt.Errorf("it has %d bytes, more than %d", header.Size, maxAccounts)
	}
	data, err := io.ReadAll(archive)
	return data, header, err
}

// knownAccounts are those of images that have been read, by the image's id. Safe for concurrent use.
type knownAccounts struct {
	mu sync.Mutex
	of map[string]accounts
}

func (k *knownAccounts) get(image string) (accounts, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.of[image]
	return a, ok
}

func (k *knownAccounts) put(image string, a accounts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[image] = a
}

// retain forgets the images that are gone.
func (k *knownAccounts) retain(images map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.of, func(id string, _ accounts) bool { return !images[id] })
}
