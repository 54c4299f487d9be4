// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/util/version"

	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
)

// Registrar is the kubelet's part in the registration of CSI drivers, as the watcher of plugins calls it. It is safe for concurrent
// use.
type Registrar struct {
	calls Calls
	root  string // the kubelet's directory
	node  *node

	mu      sync.Mutex
	drivers map[string]driver
}

var _ pluginregistration.Handler = (*Registrar)(nil)

// driver is a registered one.
type driver struct {
	name, endpoint string
	// dir and socket are where the endpoint is on the node.
	dir, socket string
	version     *version.Version
	calls       Calls // nil: nobody is told
}

// Validate implements pluginregistration.Handler: a driver has to speak a version of CSI that the kubelet does, and no other one of
// its name that speaks a higher version may be there.
func (r *Registrar) Validate(p pluginregistration.Plugin) error {
	_, err := r.judge(p)
	return err
}

func (r *Registrar) judge(p pluginregistration.Plugin) (driver, error) {
	highest, err := highestVersion(p.Versions)
	if err != nil {
		return driver{}, fmt.Errorf("kubernetes.io/csi: validation failed for CSI Driver %s at endpoint %s: %w", p.Name, p.Endpoint, err)
	}
	r.mu.Lock()
	have, there := r.drivers[p.Name]
	r.mu.Unlock()
	if there && have.endpoint != p.Endpoint && !have.version.LessThan(highest) {
		return driver{}, fmt.Errorf("kubernetes.io/csi: validation failed for CSI Driver %s at endpoint %s: "+
			"another driver with the same name is already registered with a higher supported version: %q", p.Name, p.Endpoint, have.version)
	}
	d := driver{name: p.Name, endpoint: p.Endpoint, version: highest, calls: r.calls}
	d.dir, d.socket = r.place(p.Endpoint)
	return d, nil
}

// place is where the socket of an endpoint is: by the name of the kubelet's directory that drivers have, it is in this kubelet's,
// even if that name is another cluster's on this machine.
func (r *Registrar) place(endpoint string) (dir, socket string) {
	for _, root := range []string{kubeletdir.Standard, r.root} {
		if rel, err := filepath.Rel(root, endpoint); err == nil && filepath.IsLocal(rel) {
			return r.root, rel
		}
	}
	return filepath.Dir(endpoint), filepath.Base(endpoint)
}

// highestVersion is the highest version of CSI 1 among those that a driver speaks.
func highestVersion(versions []string) (*version.Version, error) {
	var highest *version.Version
	var last error
	for _, s := range versions {
		v, err := version.ParseGeneric(s)
		switch {
		case err != nil:
			last = err
		case v.Major() != 1:
			last = fmt.Errorf("unsupported version %s", s)
		case highest == nil || highest.LessThan(v):
			highest = v
		}
	}
	if highest == nil {
		return nil, fmt.Errorf("could not find a highest supported version from versions (%v) reported by this driver; error: %w", versions, last)
	}
	return highest, nil
}

// Register implements pluginregistration.Handler. It makes the driver known: to volumes at once, and to the API by the CSINode and by
// annotation and labels of the Node. It fails if the driver does not tell about its node, or the API server refuses what it tells;
// one that does not answer learns it later.
func (r *Registrar) Register(ctx context.Context, p pluginregistration.Plugin) error {
	d, err := r.judge(p)
	if err != nil {
		return err
	}
	info, err := nodeInfo(ctx, d)
	if err != nil {
		return fmt.Errorf("CSI Driver %s: %w", p.Name, err)
	}
	r.mu.Lock()
	r.drivers[p.Name] = d
	r.mu.Unlock()
	if err := r.node.install(ctx, p.Name, info); err != nil {
		r.forget(p)
		return fmt.Errorf("CSI Driver %s: %w", p.Name, err)
	}
	return nil
}

// nodeInfo asks a driver what it knows of the node.
func nodeInfo(ctx context.Context, d driver) (*csipb.NodeGetInfoResponse, error) {
	info, err := call(ctx, d, func(ctx context.Context, c csipb.NodeClient) (*csipb.NodeGetInfoResponse, error) {
		return c.NodeGetInfo(ctx, &csipb.NodeGetInfoRequest{})
	})
	if err == nil && info.GetNodeId() == "" {
		err = errors.New("the node ID is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("NodeGetInfo: %w", err)
	}
	return info, nil
}

// Deregister implements pluginregistration.Handler. Volumes of the driver stay, and are torn down when it is back.
func (r *Registrar) Deregister(p pluginregistration.Plugin) {
	if r.forget(p) {
		r.node.uninstall(p.Name)
	}
}

// forget forgets a driver, unless another one has its name by now.
func (r *Registrar) forget(p pluginregistration.Plugin) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drivers[p.Name].endpoint != p.Endpoint {
		return false
	}
	delete(r.drivers, p.Name)
	return true
}

// recount has a driver tell again what it knows of the node.
func (r *Registrar) recount(ctx context.Context, name string) error {
	d, err := r.find(name)
	if err != nil {
		return err
	}
	info, err := nodeInfo(ctx, d)
	if err != nil {
		return err
	}
	still := func() bool {
		now, err := r.find(name)
		return err == nil && now.endpoint == d.endpoint
	}
	if !still() {
		return nil
	}
	err = r.node.install(ctx, name, info)
	if !still() { // it went meanwhile, perhaps before this was written
		r.node.uninstall(name)
	}
	return err
}

// names are the drivers that are registered.
func (r *Registrar) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.drivers))
}

// find returns a registered driver.
func (r *Registrar) find(name string) (driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, there := r.drivers[name]
	if !there {
		return driver{}, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
	}
	return d, nil
}
