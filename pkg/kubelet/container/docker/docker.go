// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package docker is container.Runtime on Docker Engine, spoken to through its API from version 1.41 on. Touch it when the
// kubelet asks something new of an engine or a version of Docker behaves differently.
//
// Docker itself is the only memory: names and labels (labels.go) carry all that a restarted kubelet needs to know its
// containers again. The files follow the interface: sandbox, lifecycle, list, exec, logs, portforward, image; spec.go
// turns the kubelet's wishes into Docker's configuration and is pure.
package docker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"golang.org/x/sync/singleflight"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// minAPIVersion is that of Docker 20.10.
const minAPIVersion = "1.41"

// Runtime implements container.Runtime on a Docker daemon.
type Runtime struct {
	config Config
	client *client.Client
	// fresh connects anew for each call. A daemon that ends refuses that, but serves the connections that it has until its last instant;
	// what it is told to start then stays mounted below the next daemon's mounts, and can never be removed.
	fresh     *client.Client
	privilege privilege
	imageIDs  imageIDs
	accounts  knownAccounts
	importing singleflight.Group // of the pause image
	patience  time.Duration      // with a daemon that does nothing of what Purge and its like ask
	stall     time.Duration      // with a pull that makes no progress
	queue     time.Duration      // with one that waits for others, for a registry which falls silent when its turn comes looks the same
	ghost     time.Duration      // with a name that is taken by no container
	dead      time.Duration      // with what is dead and cannot be removed, if all is to go
	// netns is the node's network namespace, "" if it is the engine's.
	netns func(context.Context) (string, error)

	mu      sync.Mutex
	version container.Version // as of the last Version call, with the daemon's cgroup facts
}

var _ container.Runtime = (*Runtime)(nil)

// New returns a Runtime. It does not talk to the daemon yet; Version does.
func New(config Config) (*Runtime, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	c, err := dial(config.Host, config.TLS)
	if err != nil {
		return nil, err
	}
	fresh, err := dial(config.Host, config.TLS, forgetful)
	if err != nil {
		return nil, err
	}
	own, err := ownPrivilege()
	if err != nil {
		return nil, err
	}
	r := &Runtime{config: config, client: c, fresh: fresh, privilege: own, imageIDs: imageIDs{of: map[string]string{}}, accounts: knownAccounts{of: map[string]accounts{}},
		patience: time.Minute, stall: time.Minute, queue: time.Hour, ghost: 10 * time.Second, dead: 10 * time.Second}
	r.netns = r.nodeNetNS
	if config.NetNS != "" {
		r.netns = func(context.Context) (string, error) { return config.NetNS, nil }
	}
	return r, nil
}

func dial(host string, t TLS, more ...client.Opt) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = []client.Opt{t.option, client.WithHost(host), client.WithVersionFromEnv(), client.WithAPIVersionNegotiation()}
	}
	c, err := client.NewClientWithOpts(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("configuring the Docker client for %q: %w", host, err)
	}
	return c, nil
}

// forgetful has a client keep no connections.
func forgetful(c *client.Client) error {
	t, ok := c.HTTPClient().Transport.(*http.Transport)
	if !ok {
		return fmt.Errorf("the Docker client sends by a %T", c.HTTPClient().Transport)
	}
	t.DisableKeepAlives = true
	return nil
}

// option is what the client makes of DOCKER_CERT_PATH and DOCKER_TLS_VERIFY.
func (t TLS) option(c *client.Client) error {
	if t.CertPath == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(t.CertPath, "cert.pem"), filepath.Join(t.CertPath, "key.pem"))
	if err != nil {
		return fmt.Errorf("reading the certificate for the Docker daemon: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, InsecureSkipVerify: !t.Verify}
	if t.Verify {
		data, err := os.ReadFile(filepath.Join(t.CertPath, "ca.pem"))
		if err != nil {
			return fmt.Errorf("reading the CA of the Docker daemon: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("no certificate in %s", filepath.Join(t.CertPath, "ca.pem"))
		}
	}
	return client.WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: config}, CheckRedirect: client.CheckRedirect})(c)
}

// Close releases idle connections to the daemon. Containers go on.
func (r *Runtime) Close() error { return r.client.Close() }

// Version implements container.Runtime.
func (r *Runtime) Version(ctx context.Context) (container.Version, error) {
	v, err := r.client.ServerVersion(ctx)
	if err != nil {
		return container.Version{}, engineError(err, "asking the Docker daemon's version")
	}
	r.mu.Lock()
	known := r.version
	r.mu.Unlock()
	if known.Version == v.Version {
		return known, nil
	}
	info, err := r.client.Info(ctx)
	if err != nil {
		return container.Version{}, engineError(err, "asking the Docker daemon's configuration")
	}
	known = container.Version{
		Name: "docker", Version: v.Version, APIVersion: r.client.ClientVersion(),
		CgroupDriver: info.CgroupDriver, CgroupVersion: info.CgroupVersion,
		Handlers: handlers(info, versions.GreaterThanOrEqualTo(r.client.ClientVersion(), recursiveReadOnlyAPI) && kernelSetsMounts()),
	}
	if known.CgroupVersion == "" {
		known.CgroupVersion = "1"
	}
	r.mu.Lock()
	r.version = known
	r.mu.Unlock()
	return known, nil
}

// Check tells whether the daemon at host (both as in Config) can be used, in words for the person at the keyboard. Errors
// of a daemon that cannot be reached match container.ErrUnavailable.
func Check(ctx context.Context, host string, t TLS) error {
	c, err := dial(host, t)
	if err != nil {
		return err
	}
	defer c.Close()
	address := c.DaemonHost()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ping, err := c.Ping(ctx)
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("no permission to use Docker at %s: run as root, or add the user to its group (sudo usermod -aG docker $USER) and log in again: %w", address, container.ErrUnavailable)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("Docker at %s does not answer within 10 seconds; look at its log (journalctl -u docker): %w", address, container.ErrUnavailable) //nolint:staticcheck // Docker is a name
	case err != nil:
		return fmt.Errorf("Docker at %s is not running; start it (sudo systemctl start docker) or set DOCKER_HOST to where it listens: %w", address, container.ErrUnavailable) //nolint:staticcheck // Docker is a name
	case ping.OSType != "" && ping.OSType != "linux":
		return fmt.Errorf("Docker at %s runs %s containers; minik8s needs Linux containers", address, ping.OSType) //nolint:staticcheck // Docker is a name
	case versions.LessThan(ping.APIVersion, minAPIVersion):
		return fmt.Errorf("Docker at %s speaks API version %s; minik8s needs at least %s (Docker 20.10)", address, ping.APIVersion, minAPIVersion) //nolint:staticcheck // Docker is a name
	}
	info, err := c.Info(ctx)
	if err != nil {
		return engineError(err, "asking the Docker daemon's configuration")
	}
	if slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=rootless") }) {
		return fmt.Errorf("Docker at %s runs rootless; minik8s needs a daemon that runs as root", address) //nolint:staticcheck // Docker is a name
	}
	return nil
}

// engineError gives an error of the client its sentinel and its subject. The engine's own words stay in it.
func engineError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	subject := fmt.Sprintf(format, args...)
	if sentinel := classify(err); sentinel != nil {
		return fmt.Errorf("%s: %w: %w", subject, sentinel, err)
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// classify returns the sentinel error that stands for an error of the client, nil if there is none.
func classify(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case client.IsErrConnectionFailed(err), cerrdefs.IsUnavailable(err),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return container.ErrUnavailable
	case cerrdefs.IsNotFound(err), strings.Contains(err.Error(), "No such container: "): // a bad request when another container names it
		return container.ErrNotFound
	case cerrdefs.IsConflict(err) && strings.Contains(err.Error(), "not running"),
		strings.Contains(err.Error(), "of a non running container"):
		return container.ErrNotRunning
	}
	return nil
}

// said returns the daemon's words without what the client puts in front of them.
func said(err error) string {
	return strings.TrimPrefix(err.Error(), "Error response from daemon: ")
}
