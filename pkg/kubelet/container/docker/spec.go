// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"slices"
	"strconv"
	"strings"

	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/versions"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/pause"
)

const (
	// pauseCPUShares is the least, as upstream gives to its sandboxes.
	pauseCPUShares = 2
	// pauseOOMScoreAdj makes the pause process nearly the last to be killed: with it goes the pod's network.
	pauseOOMScoreAdj = -998
)

func (r *Runtime) logConfig() dockercontainer.LogConfig {
	return dockercontainer.LogConfig{Type: "json-file", Config: map[string]string{
		"max-size": r.config.LogMaxSize, "max-file": strconv.Itoa(r.config.LogMaxFiles),
	}}
}

// entered is where a sandbox finds the network namespace that it is to enter.
const entered = "/netns"

// sandboxSpec returns what Docker makes a pause container from. netns is the node's network namespace if it is not the engine's.
func (r *Runtime) sandboxSpec(c container.SandboxConfig, netns string) (*dockercontainer.Config, *dockercontainer.HostConfig) {
	config := &dockercontainer.Config{
		Image:    pause.Image,
		Hostname: c.Hostname,
		User:     pause.User,
		Labels:   r.labels(kindSandbox, c.Pod, c.Attempt, c.Labels),
		// With its network "disabled" Docker gives a container a namespace with a loopback and otherwise keeps its hands
		// off it, which also saves half of the time of starting it.
		NetworkDisabled: c.Network != container.NamespaceNode,
	}
	host := &dockercontainer.HostConfig{
		LogConfig:      r.logConfig(),
		NetworkMode:    "none",
		IpcMode:        dockercontainer.IPCModeShareable,
		Sysctls:        c.Sysctls,
		Runtime:        c.Handler,
		ReadonlyRootfs: true,
		SecurityOpt:    []string{"no-new-privileges"},
		OomScoreAdj:    max(pauseOOMScoreAdj, r.privilege.oomScoreAdj),
		Resources:      dockercontainer.Resources{CgroupParent: c.CgroupParent, CPUShares: pauseCPUShares},
	}
	switch {
	case c.Network == container.NamespaceNode && netns != "":
		// Docker cannot have a container join a namespace that is no container's, so that this one goes there by itself.
		config.NetworkDisabled, config.Hostname, config.Cmd = true, r.config.Node[:min(len(r.config.Node), 63)], []string{entered}
		config.Labels[labelNetwork] = string(container.NamespaceNode)
		config.User, host.CapDrop, host.CapAdd = pause.EntersUser, []string{"ALL"}, []string{pause.EntersCapability}
		host.Mounts = []mount.Mount{{Type: mount.TypeBind, Source: netns, Target: entered, ReadOnly: true}}
	case c.Network == container.NamespaceNode:
		host.NetworkMode, host.UTSMode, config.Hostname = "host", "host", ""
	}
	if c.PID == container.NamespaceNode {
		host.PidMode = "host"
	}
	if c.IPC == container.NamespaceNode {
		host.IpcMode = "host"
	}
	return config, host
}

// containerSpec returns what Docker makes a container from, but for its user: see become. netns is that of sandboxSpec.
func (r *Runtime) containerSpec(sandboxID string, c container.ContainerConfig, netns string) (*dockercontainer.Config, *dockercontainer.HostConfig) {
	labels := r.labels(kindContainer, c.Pod, c.Attempt, c.Labels)
	labels[labelContainer] = c.Name
	labels[labelSandbox] = sandboxID
	labels[labelHash] = c.Hash
	labels[labelType] = string(c.Type)
	labels[labelImageRef] = c.ImageRef
	labels[labelTermination] = c.TerminationMount

	config := &dockercontainer.Config{
		Image:      c.Image,
		Entrypoint: c.Command,
		Cmd:        c.Args,
		WorkingDir: c.WorkingDir,
		Env:        c.Env,
		OpenStdin:  c.Stdin,
		StdinOnce:  c.StdinOnce,
		Tty:        c.TTY,
		StopSignal: c.StopSignal,
		Labels:     labels,
		// Health is the prober's business.
		Healthcheck: &dockercontainer.HealthConfig{Test: []string{"NONE"}},
	}
	joined := "container:" + sandboxID
	host := &dockercontainer.HostConfig{
		LogConfig: r.logConfig(),
		// Also with the host's network the sandbox is joined: it is the same namespace then, and Docker leaves
		// /etc/hosts and the like to the kubelet in both cases.
		NetworkMode:    dockercontainer.NetworkMode(joined),
		IpcMode:        dockercontainer.IpcMode(joined),
		ReadonlyRootfs: c.ReadOnlyRootFilesystem,
		OomScoreAdj:    max(c.OOMScoreAdj, r.privilege.oomScoreAdj),
		CapAdd:         slices.Clone(c.CapAdd),
		CapDrop:        slices.Clone(c.CapDrop),
		Resources:      resources(c.Resources),
		Runtime:        c.Handler,
	}
	host.CgroupParent = c.CgroupParent
	switch c.PID {
	case container.NamespacePod:
		host.PidMode = dockercontainer.PidMode(joined)
	case container.NamespaceNode:
		host.PidMode = "host"
	case container.NamespaceTarget:
		host.PidMode = dockercontainer.PidMode("container:" + c.PIDTarget)
	}
	if c.IPC == container.NamespaceNode {
		host.IpcMode = "host"
	}
	if c.Network == container.NamespaceNode && netns == "" {
		host.UTSMode = "host"
	}
	images := map[string]int{}
	for _, m := range c.Mounts {
		m.HostPath = kubeletdir.Place(r.config.KubeletDir, m.HostPath)
		host.Mounts = append(host.Mounts, mountOf(m, images[m.Image]))
		images[m.Image]++
	}
	for _, d := range c.Devices {
		host.Devices = append(host.Devices, dockercontainer.DeviceMapping{
			PathOnHost: d.HostPath, PathInContainer: d.ContainerPath, CgroupPermissions: d.Permissions,
		})
	}
	if len(c.CDIDevices) > 0 {
		host.DeviceRequests = []dockercontainer.DeviceRequest{{Driver: "cdi", DeviceIDs: c.CDIDevices}}
	}
	host.Annotations = c.Annotations
	if c.UnmaskedProc {
		host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{}
	}
	host.SecurityOpt = securityOptions(c)
	if slices.ContainsFunc(c.CapAdd, isAll) {
		host.CapDrop = append(host.CapDrop, r.missing()...)
	}
	if c.Privileged {
		r.grantAll(host)
	}
	return config, host
}

// mountOf translates a mount, before which the container has others of the same image. Docker names a mount of an image after what
// it was asked for, so that one name does once only; but an image has as many as its id has beginnings.
func mountOf(m container.Mount, others int) mount.Mount {
	if m.Image != "" {
		id := strings.TrimPrefix(m.Image, "sha256:")
		return mount.Mount{
			Type: mount.TypeImage, Source: id[:max(len(id)-others, 12)], Target: m.ContainerPath, ReadOnly: true, ImageOptions: &mount.ImageOptions{Subpath: m.SubPath},
		}
	}
	// readOnly is not recursive in Kubernetes unless the pod says so, but is in newer Dockers.
	options := &mount.BindOptions{Propagation: mount.Propagation(m.Propagation), NonRecursive: m.NonRecursive, ReadOnlyNonRecursive: m.ReadOnly}
	if m.RecursiveReadOnly {
		options = &mount.BindOptions{Propagation: mount.PropagationRPrivate, ReadOnlyForceRecursive: true}
	}
	return mount.Mount{Type: mount.TypeBind, Source: m.HostPath, Target: m.ContainerPath, ReadOnly: m.ReadOnly, BindOptions: options}
}

func isAll(capability string) bool { return strings.EqualFold(capability, "ALL") }

func securityOptions(c container.ContainerConfig) []string {
	var opts []string
	if c.NoNewPrivileges && !c.Privileged {
		opts = append(opts, "no-new-privileges")
	}
	if c.Seccomp != "" {
		opts = append(opts, "seccomp="+c.Seccomp)
	}
	if c.AppArmor != "" {
		opts = append(opts, "apparmor="+c.AppArmor)
	}
	return opts
}

// ownCapabilitiesAPI is that of the first engine that leaves out by itself what the machine cannot give, and refuses who names it.
const ownCapabilitiesAPI = "1.42"

// missing are the capabilities that are to be left out of all.
func (r *Runtime) missing() []string {
	if versions.GreaterThanOrEqualTo(r.client.ClientVersion(), ownCapabilitiesAPI) {
		return nil
	}
	return r.privilege.missing
}

// grantAll makes a container privileged, or as privileged as the machine allows where Docker's own switch fails.
func (r *Runtime) grantAll(host *dockercontainer.HostConfig) {
	missing := r.missing()
	if len(missing) == 0 {
		host.Privileged = true
		return
	}
	host.CapAdd, host.CapDrop = []string{"ALL"}, missing
	host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{}
	host.SecurityOpt = []string{"seccomp=unconfined", "apparmor=unconfined"}
	host.DeviceCgroupRules = []string{"a *:* rwm"}
	host.Devices = append(host.Devices, dockercontainer.DeviceMapping{PathOnHost: "/dev", PathInContainer: "/dev", CgroupPermissions: "rwm"})
}

// resources translates cgroup settings; swap is never granted on top of memory.
func resources(r container.Resources) dockercontainer.Resources {
	out := dockercontainer.Resources{
		CPUShares: r.CPUShares, CPUQuota: r.CPUQuota, CPUPeriod: r.CPUPeriod, Memory: r.MemoryBytes, MemorySwap: r.MemoryBytes,
		CpusetCpus: r.CPUs, CpusetMems: r.NUMANodes,
	}
	if r.PidsLimit > 0 {
		out.PidsLimit = &r.PidsLimit
	}
	return out
}

// resourcesOf translates back.
func resourcesOf(r dockercontainer.Resources) container.Resources {
	out := container.Resources{
		CPUShares: max(0, r.CPUShares), CPUQuota: max(0, r.CPUQuota), CPUPeriod: max(0, r.CPUPeriod), MemoryBytes: max(0, r.Memory),
		CPUs: r.CpusetCpus, NUMANodes: r.CpusetMems,
	}
	if r.PidsLimit != nil {
		out.PidsLimit = max(0, *r.PidsLimit)
	}
	if out.CPUQuota == 0 {
		out.CPUPeriod = 0
	}
	return out
}
