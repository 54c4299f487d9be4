// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package launch resolves a pod's spec into what the container engine is told: sandbox and container configurations
// and the files that the kubelet manages in them. Touch it when a field of the spec starts to matter to the engine.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/env"
	"minik8s.io/minik8s/pkg/kubelet/internal/hostsfile"
	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/resolvconf"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// Volumes is the part of the volume manager that launching needs.
type Volumes interface {
	ContainerMounts(ctx context.Context, c plugin.Container) ([]container.Mount, error)
	ContainerDevices(pod *corev1.Pod, c *corev1.Container) ([]container.Device, error)
	Source(ctx context.Context, pod *corev1.Pod) env.Source
	// Groups are those that containers are in for the volumes of their pod.
	Groups(pod *corev1.Pod) []int64
}

// Devices tells what containers need for the devices that they have from plugins.
type Devices interface {
	Container(ctx context.Context, pod types.UID, name string) (devicemanager.Options, error)
}

// Claims tells which devices the resource claims of a pod give to a container, by the Container Device Interface.
type Claims interface {
	CDIDevices(pod *corev1.Pod, c *corev1.Container) ([]string, error)
}

// Config is what a Builder is made from.
type Config struct {
	// RootDir is the kubelet's directory: pods/<uid> are the pods' own, seccomp the localhost profiles.
	RootDir string
	Volumes Volumes
	Devices Devices
	Claims  Claims
	// Services that a pod in namespace finds in its environment; known is false while the API server has not told of them.
	Services func(namespace string) (list []*corev1.Service, known bool)
	// ClusterDNS, ClusterDomain and HostResolvConf (a path, "" for pods that are not to look up names) make /etc/resolv.conf.
	ClusterDNS     []string
	ClusterDomain  string
	HostResolvConf string
	// HostIPs are the node's, and Node refers to it.
	HostIPs []string
	Node    *corev1.ObjectReference
	// SeccompDefault gives containers that ask for no seccomp profile the engine's.
	SeccompDefault bool
	// Recorder takes events of pods and of the node.
	Recorder record.EventRecorder
	// Resources are the cgroup settings of a container, OOMScoreAdj its rank when memory runs out.
	Resources   func(*corev1.Pod, *corev1.Container) container.Resources
	OOMScoreAdj func(*corev1.Pod, *corev1.Container) int
}

// Builder resolves specs.
type Builder struct{ cfg Config }

// New returns a Builder.
func New(cfg Config) *Builder { return &Builder{cfg: cfg} }

// PodDir is the directory of a pod.
func (b *Builder) PodDir(pod *corev1.Pod) string {
	return filepath.Join(b.cfg.RootDir, "pods", string(pod.UID))
}

// Identity is how the engine knows a pod.
func Identity(pod *corev1.Pod) container.Pod {
	return container.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// Sandbox resolves the pod-wide part, and writes the resolver configuration that all containers of the sandbox get.
func (b *Builder) Sandbox(pod *corev1.Pod, attempt uint32, cgroupParent string) (container.SandboxConfig, error) {
	cfg := container.SandboxConfig{
		Pod: Identity(pod), Attempt: attempt, CgroupParent: cgroupParent,
		PID: pidMode(pod),
	}
	if pod.Spec.HostIPC {
		cfg.IPC = container.NamespaceNode
	}
	if pod.Spec.HostNetwork {
		cfg.Network = container.NamespaceNode
	} else {
		name, domain, err := b.hostname(pod)
		if err != nil {
			return cfg, err
		}
		cfg.Hostname = name
		if pod.Spec.SetHostnameAsFQDN != nil && *pod.Spec.SetHostnameAsFQDN && domain != "" {
			cfg.Hostname = name + "." + domain
			if n := len(cfg.Hostname); n > 64 {
				return cfg, fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)", cfg.Hostname, 64, n)
			}
		}
	}
	if sc := pod.Spec.SecurityContext; sc != nil && len(sc.Sysctls) > 0 {
		cfg.Sysctls = map[string]string{}
		for _, s := range sc.Sysctls {
			cfg.Sysctls[strings.ReplaceAll(s.Name, "/", ".")] = s.Value
		}
	}
	_, err := b.resolvConf(pod, true)
	return cfg, err
}

func pidMode(pod *corev1.Pod) container.NamespaceMode {
	switch {
	case pod.Spec.HostPID:
		return container.NamespaceNode
	case pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		return container.NamespacePod
	default:
		return container.NamespaceContainer
	}
}

// hostname is the pod's host name and, if it has a subdomain, the domain it is in.
func (b *Builder) hostname(pod *corev1.Pod) (name, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil {
		return *o, "", nil // KEP-4762
	}
	name = pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	if len(name) > 63 {
		if name = strings.TrimRight(name[:63], "-."); name == "" {
			return "", "", fmt.Errorf("hostname of pod %q is empty when cut to 63 characters", pod.Name)
		}
	}
	if pod.Spec.Subdomain != "" {
		domain = fmt.Sprintf("%s.%s.svc.%s", pod.Spec.Subdomain, pod.Namespace, b.cfg.ClusterDomain)
	}
	return name, domain, nil
}

// Request is a container to resolve.
type Request struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Type      container.ContainerType
	Attempt   uint32
	Image     *container.Image
	// Volumes are the images of the volumes that are images, by volume.
	Volumes map[string]*container.Image
	PodIPs  []string
	// RecursiveReadOnly: what runs the pod's containers takes mounts that are so.
	RecursiveReadOnly bool
	// CgroupParent of the pod.
	CgroupParent string
	// Handler is the sandbox's.
	Handler string
	// Target is the running container whose processes an ephemeral container sees, "" for none.
	Target string
	// Labels are what whoever starts the container wants to find of it later.
	Labels map[string]string
}

// Container resolves one container and writes the files it gets. An error is about the spec or what it refers to: the
// container waits with reason CreateContainerConfigError.
func (b *Builder) Container(ctx context.Context, r Request) (container.ContainerConfig, error) {
	pod, c := r.Pod, r.Container
	cfg := container.ContainerConfig{
		Pod: Identity(pod), Name: c.Name, Type: r.Type, Handler: r.Handler, Attempt: r.Attempt, Hash: podspec.Hash(c),
		Image: r.Image.ID, ImageRef: c.Image,
		WorkingDir: c.WorkingDir,
		Stdin:      c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
		PID:          pidMode(pod),
		CgroupParent: r.CgroupParent,
		Resources:    b.cfg.Resources(pod, c),
		OOMScoreAdj:  b.cfg.OOMScoreAdj(pod, c),
		StopSignal:   r.Image.StopSignal,
		Labels:       r.Labels,
	}
	if pod.Spec.HostNetwork {
		cfg.Network = container.NamespaceNode
	}
	if pod.Spec.HostIPC {
		cfg.IPC = container.NamespaceNode
	}
	if r.Target != "" {
		cfg.PID, cfg.PIDTarget = container.NamespaceTarget, r.Target
	}
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		cfg.StopSignal = string(*c.Lifecycle.StopSignal)
	}
	if err := secure(&cfg, pod, c, r.Image.User, b.cfg.SeccompDefault, profileIn(filepath.Join(b.cfg.RootDir, "seccomp"))); err != nil {
		return cfg, err
	}
	for _, gid := range b.cfg.Volumes.Groups(pod) {
		if !slices.Contains(cfg.Groups, gid) {
			cfg.Groups = append(cfg.Groups, gid)
		}
	}

	podIP := ""
	if len(r.PodIPs) > 0 {
		podIP = r.PodIPs[0]
	}
	services, err := b.services(ctx, pod)
	if err != nil {
		return cfg, err
	}
	vars, err := env.Make(pod, c, podIP, r.PodIPs, b.cfg.HostIPs, services, b.cfg.Volumes.Source(ctx, pod))
	if err != nil {
		return cfg, err
	}
	o, err := b.cfg.Devices.Container(ctx, pod.UID, c.Name)
	if err != nil {
		return cfg, err
	}
	cfg.Env = withDevices(vars, o.Env)
	cfg.Command, cfg.Args = env.Expand(c.Command, cfg.Env), env.Expand(c.Args, cfg.Env)

	mounted, err := withSubPaths(c, cfg.Env)
	if err != nil {
		return cfg, err
	}
	of := plugin.Container{Pod: pod, Spec: mounted, PodIPs: r.PodIPs, Images: r.Volumes, RecursiveReadOnly: r.RecursiveReadOnly}
	if cfg.Mounts, err = b.cfg.Volumes.ContainerMounts(ctx, of); err != nil {
		return cfg, err
	}
	if cfg.Devices, err = b.cfg.Volumes.ContainerDevices(pod, c); err != nil {
		return cfg, err
	}
	if err := b.files(&cfg, r); err != nil {
		return cfg, err
	}
	claimed, err := b.cfg.Claims.CDIDevices(pod, c)
	if err != nil {
		return cfg, err
	}
	o.CDIDevices = append(claimed, slices.DeleteFunc(slices.Clone(o.CDIDevices), func(name string) bool { return slices.Contains(claimed, name) })...)
	return cfg, makeSources(equip(&cfg, o), b.cfg.RootDir)
}

// makeSources creates directories that plugins have mounted and that are not there, as upstream's container engines do.
func makeSources(mounts []container.Mount, rootDir string) error {
	for _, m := range mounts {
		source := kubeletdir.Place(rootDir, m.HostPath)
		if _, err := os.Stat(source); !errors.Is(err, fs.ErrNotExist) {
			continue // what else is wrong the engine says
		}
		if err := os.MkdirAll(source, 0o755); err != nil {
			return fmt.Errorf("creating what a device plugin has mounted: %w", err)
		}
	}
	return nil
}

// withDevices adds the variables that a container needs for its devices to those that the pod gives it, which win.
func withDevices(vars []string, devices map[string]string) []string {
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		if !slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			vars = append(vars, name+"="+devices[name])
		}
	}
	return vars
}

// withSubPaths returns the container with each subPathExpr made a subPath by the environment that the container gets.
func withSubPaths(c *corev1.Container, vars []string) (*corev1.Container, error) {
	out := *c
	out.VolumeMounts = slices.Clone(c.VolumeMounts)
	for i := range out.VolumeMounts {
		m := &out.VolumeMounts[i]
		if m.SubPathExpr == "" {
			continue
		}
		path, err := env.ExpandPath(m.SubPathExpr, vars)
		if err != nil {
			return nil, err
		}
		m.SubPath, m.SubPathExpr = path, ""
	}
	return &out, nil
}

// equip adds what else a container needs for its devices, where the pod does not say otherwise, and returns the mounts among it.
func equip(cfg *container.ContainerConfig, o devicemanager.Options) (mounts []container.Mount) {
	taken := map[string]bool{}
	for _, m := range cfg.Mounts {
		taken[filepath.Clean(m.ContainerPath)] = true
	}
	for _, m := range o.Mounts {
		if !taken[filepath.Clean(m.ContainerPath)] {
			mounts = append(mounts, m)
		}
	}
	cfg.Mounts = append(cfg.Mounts, mounts...)
	cfg.Devices = append(cfg.Devices, o.Devices...)
	cfg.CDIDevices, cfg.Annotations = o.CDIDevices, o.Annotations
	return mounts
}

// files adds /etc/hosts, /etc/resolv.conf and the termination log.
func (b *Builder) files(cfg *container.ContainerConfig, r Request) error {
	dir := b.PodDir(r.Pod)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making pod directory: %w", err)
	}
	taken := map[string]bool{}
	for _, m := range cfg.Mounts {
		taken[filepath.Clean(m.ContainerPath)] = true
	}
	if !taken["/etc/hosts"] {
		text, err := b.hosts(r.Pod, r.PodIPs)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "etc-hosts")
		if err := overwrite(path, text); err != nil {
			return err
		}
		cfg.Mounts = append(cfg.Mounts, container.Mount{HostPath: path, ContainerPath: "/etc/hosts", ReadOnly: false})
	}
	if !taken["/etc/resolv.conf"] {
		path, err := b.resolvConf(r.Pod, false)
		if err != nil {
			return err
		}
		cfg.Mounts = append(cfg.Mounts, container.Mount{HostPath: path, ContainerPath: "/etc/resolv.conf"})
	}
	if p := r.Container.TerminationMessagePath; p != "" && !taken[filepath.Clean(p)] {
		logs := filepath.Join(dir, "containers", r.Container.Name)
		if err := os.MkdirAll(logs, 0o750); err != nil {
			return fmt.Errorf("making container directory: %w", err)
		}
		path := filepath.Join(logs, fmt.Sprintf("%08x", r.Attempt))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
		if err != nil {
			return fmt.Errorf("making termination log: %w", err)
		}
		// The mode is set apart because the umask would narrow it and any user of the container may write.
		if err := errors.Join(f.Chmod(0o666), f.Close()); err != nil {
			return fmt.Errorf("making termination log: %w", err)
		}
		cfg.Mounts = append(cfg.Mounts, container.Mount{HostPath: path, ContainerPath: p})
		cfg.TerminationMount = path
	}
	return nil
}

// resolvConf is the file that the containers of a pod have as /etc/resolv.conf. It is made with the pod's sandbox (anew), as upstream's: what
// becomes of the node's later does not matter to containers that are started again.
func (b *Builder) resolvConf(pod *corev1.Pod, anew bool) (string, error) {
	path := filepath.Join(b.PodDir(pod), "resolv.conf")
	if _, err := os.Stat(path); err == nil && !anew {
		return path, nil
	}
	c, err := b.resolver(pod)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(b.PodDir(pod), 0o750); err != nil {
		return "", fmt.Errorf("making pod directory: %w", err)
	}
	return path, overwrite(path, c.Render())
}

// resolver decides on a pod's /etc/resolv.conf, and tells of what it does not get.
func (b *Builder) resolver(pod *corev1.Pod) (resolvconf.Config, error) {
	host := resolvconf.None(b.cfg.HostIPs)
	if b.cfg.HostResolvConf != "" {
		var err error
		if host, err = resolvconf.ReadHost(b.cfg.HostResolvConf); err != nil {
			return host, err
		}
	}
	if len(b.cfg.ClusterDNS) == 0 && resolvconf.Clustered(pod) {
		b.cfg.Recorder.Event(b.cfg.Node, corev1.EventTypeWarning, "MissingClusterDNS", resolvconf.Missing)
		b.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "MissingClusterDNS", fmt.Sprintf("pod: %q. %s", podspec.FullName(pod), resolvconf.Missing))
	}
	c, omitted := resolvconf.For(pod, b.cfg.ClusterDNS, b.cfg.ClusterDomain, host)
	for _, text := range omitted {
		b.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "DNSConfigForming", text)
	}
	return c, nil
}

func (b *Builder) hosts(pod *corev1.Pod, ips []string) (string, error) {
	if pod.Spec.HostNetwork {
		data, err := os.ReadFile("/etc/hosts")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("reading hosts file of the node: %w", err)
		}
		return hostsfile.RenderHostNetwork(pod, string(data)), nil
	}
	name, domain, err := b.hostname(pod)
	if err != nil {
		return "", err
	}
	return hostsfile.Render(pod, ips, name, domain), nil
}

// overwrite replaces the content in place, because containers have the file itself mounted.
func overwrite(path, text string) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}
