// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

const (
	// pluginDir is the folder of the kubelet in which plugins find it and it finds them; registry is its own socket there.
	pluginDir, registry = "device-plugins", "kubelet.sock"
	// maxRequest bounds what a plugin may send to register, in bytes.
	maxRequest = 64 << 10
)

// Start takes plugins until ctx ends. That a new socket is there tells those of an earlier kubelet to register again, as with
// upstream; their own sockets are removed for the same purpose.
func (m *Manager) Start(ctx context.Context) error {
	dir := filepath.Join(m.cfg.RootDir, pluginDir)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the directory of device plugins: %w", err)
	}
	if err := clear(dir); err != nil {
		return fmt.Errorf("removing sockets of device plugins: %w", err)
	}
	defer m.wg.Wait()
	life, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	m.life = life
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		cancel() // none begins to be looked after from here on
	}()
	l, err := socket.Listen(dir, registry)
	if err != nil {
		return fmt.Errorf("listening for device plugins: %w", err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest))
	devicepluginv1beta1.RegisterRegistrationServer(s, &registration{manager: m, dir: dir})
	defer context.AfterFunc(ctx, s.Stop)()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving device plugins: %w", err)
	}
	return nil
}

// clear removes the sockets in a directory.
func clear(dir string) error {
	entries, err := os.ReadDir(dir)
	errs := []error{err}
	for _, e := range entries {
		if e.Type() == os.ModeSocket {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// registration is the service by which plugins register.
type registration struct {
	devicepluginv1beta1.UnimplementedRegistrationServer
	manager *Manager
	dir     string
}

func (r *registration) Register(ctx context.Context, req *devicepluginv1beta1.RegisterRequest) (
	*devicepluginv1beta1.Empty, error) {
	if err := check(req.GetResourceName(), []string{req.GetVersion()}); err != nil {
		return nil, err
	}
	if err := r.manager.connect(ctx, req.GetResourceName(), r.dir, req.GetEndpoint()); err != nil {
		return nil, err
	}
	return &devicepluginv1beta1.Empty{}, nil
}

// check says what is wrong with a plugin, in upstream's words.
func check(resource string, versions []string) error {
	if !slices.ContainsFunc(versions, func(v string) bool { return v == devicepluginv1beta1.Version }) {
		return fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is %q",
			strings.Join(versions, ","), devicepluginv1beta1.SupportedVersions)
	}
	if !extended(resource) {
		return fmt.Errorf("the ResourceName %q is invalid", resource)
	}
	return nil
}

// extended says whether a name is one of resources that Kubernetes does not know, of which nodes have a number.
func extended(name string) bool {
	if !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

// Registered are the plugins that are found by their sockets in the directory of all plugins.
func (m *Manager) Registered() pluginregistration.Handler { return handler{m} }

type handler struct{ manager *Manager }

func (handler) Validate(p pluginregistration.Plugin) error { return check(p.Name, p.Versions) }

func (h handler) Register(ctx context.Context, p pluginregistration.Plugin) error {
	name, is := kubeletdir.Below(h.manager.cfg.RootDir, p.Endpoint)
	if !is {
		return fmt.Errorf("endpoint %s is not below the kubelet's directory", p.Endpoint)
	}
	return h.manager.connect(ctx, p.Name, h.manager.cfg.RootDir, name)
}

func (h handler) Deregister(p pluginregistration.Plugin) {
	name, _ := kubeletdir.Below(h.manager.cfg.RootDir, p.Endpoint)
	h.manager.mu.Lock()
	defer h.manager.mu.Unlock()
	h.manager.leave(p.Name, filepath.Join(h.manager.cfg.RootDir, name))
}
