// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
)

// Host reads facts about the machine below root ("/" in production).
type Host struct {
	Root string
	// CPU and Memory are how much of it the node has; zero is all.
	CPU, Memory resource.Quantity
}

// Sized says that the node has only a part of the machine.
func (h Host) Sized() bool { return !h.CPU.IsZero() || !h.Memory.IsZero() }

// Capacity returns what the node has of the machine. dir is the file system whose size counts.
func (h Host) Capacity(dir string, maxPods int) (corev1.ResourceList, error) {
	memory, err := h.memory()
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("reading size of %q: %w", dir, err)
	}
	disk := int64(fs.Blocks) * fs.Bsize
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(maxPods), resource.DecimalSI),
	}
	for name, part := range map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: h.CPU, corev1.ResourceMemory: h.Memory} {
		if whole := capacity[name]; !part.IsZero() && part.Cmp(whole) < 0 {
			capacity[name] = part
		}
	}
	pools, _ := filepath.Glob(filepath.Join(h.Root, "sys/kernel/mm/hugepages/hugepages-*kB"))
	for _, p := range pools {
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		n, _ := strconv.ParseInt(h.text(filepath.Join("sys/kernel/mm/hugepages", filepath.Base(p), "nr_hugepages")), 10, 64)
		size := resource.NewQuantity(kb<<10, resource.BinarySI)
		capacity[corev1.ResourceName(corev1.ResourceHugePagesPrefix+size.String())] = *resource.NewQuantity(n*kb<<10, resource.BinarySI)
	}
	return capacity, nil
}

// Allocatable is what of a capacity is left for pods. Huge pages are no memory that anything else could use.
func Allocatable(capacity corev1.ResourceList, reserved ...corev1.ResourceList) corev1.ResourceList {
	out := capacity.DeepCopy()
	for name, q := range capacity {
		if memory := out[corev1.ResourceMemory]; strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			if memory.Sub(q); memory.Sign() < 0 {
				memory.Set(0)
			}
			out[corev1.ResourceMemory] = memory
		}
	}
	for _, list := range reserved {
		for name, r := range list {
			q, ok := out[name]
			if !ok {
				continue
			}
			if q.Sub(r); q.Sign() < 0 {
				q.Set(0)
			}
			out[name] = q
		}
	}
	return out
}

func (h Host) memory() (int64, error) {
	info, err := meminfo.Read(h.Root)
	if err == nil && info["MemTotal"] == 0 {
		err = fmt.Errorf("reading memory size: no MemTotal in meminfo")
	}
	return int64(info["MemTotal"]), err
}

// Info returns the machine's identity and versions.
func (h Host) Info(engine container.Version, kubelet string) corev1.NodeSystemInfo {
	var u unix.Utsname
	_ = unix.Uname(&u) // cannot fail with a valid pointer
	info := corev1.NodeSystemInfo{
		MachineID:       h.text("etc/machine-id"),
		SystemUUID:      h.text("sys/class/dmi/id/product_uuid"),
		BootID:          h.text("proc/sys/kernel/random/boot_id"),
		KernelVersion:   unix.ByteSliceToString(u.Release[:]),
		OSImage:         h.osImage(),
		KubeletVersion:  kubelet,
		OperatingSystem: runtime.GOOS,
		Architecture:    runtime.GOARCH,
	}
	if info.SystemUUID == "" {
		info.SystemUUID = info.MachineID
	}
	if memory, err := meminfo.Read(h.Root); err == nil && memory["SwapTotal"] > 0 {
		info.Swap = &corev1.NodeSwapStatus{Capacity: new(int64(memory["SwapTotal"]))}
	}
	if engine.Name != "" {
		info.ContainerRuntimeVersion = engine.Name + "://" + engine.Version
	}
	return info
}

// Handlers are what the engine runs containers with. None has user namespaces of its own: Docker has them for all containers, or for none.
func Handlers(engine container.Version) []corev1.NodeRuntimeHandler {
	var out []corev1.NodeRuntimeHandler
	for _, h := range engine.Handlers {
		out = append(out, corev1.NodeRuntimeHandler{Name: h.Name, Features: &corev1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(h.RecursiveReadOnly), UserNamespaces: new(false),
		}})
	}
	return out
}

func (h Host) osImage() string {
	for line := range strings.SplitSeq(h.text("etc/os-release"), "\n") {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return "linux"
}

// AppArmor says whether the kernel enforces AppArmor profiles.
func (h Host) AppArmor() bool { return h.text("sys/module/apparmor/parameters/enabled") == "Y" }

func (h Host) text(name string) string {
	data, err := os.ReadFile(filepath.Join(h.Root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Addresses are those of a node with these IPs, the primary first.
func Addresses(name string, ips []netip.Addr) []corev1.NodeAddress {
	var out []corev1.NodeAddress
	for _, ip := range ips {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
	}
	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
}

// Labels are those every node has.
func Labels(name string) map[string]string {
	return map[string]string{
		corev1.LabelHostname:      name,
		corev1.LabelOSStable:      runtime.GOOS,
		corev1.LabelArchStable:    runtime.GOARCH,
		"beta.kubernetes.io/os":   runtime.GOOS,
		"beta.kubernetes.io/arch": runtime.GOARCH,
	}
}

// Images lists the engine's images for the Node, the largest most of them, or all if that is negative.
func Images(ctx context.Context, r container.Runtime, most int) ([]corev1.ContainerImage, error) {
	list, err := r.Images(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	var out []corev1.ContainerImage
	for _, i := range list {
		names := append(slices.Clone(i.RepoDigests), i.RepoTags...)
		if len(names) == 0 {
			continue
		}
		out = append(out, corev1.ContainerImage{Names: names[:min(len(names), 5)], SizeBytes: i.SizeBytes})
	}
	slices.SortStableFunc(out, func(a, b corev1.ContainerImage) int {
		if a.SizeBytes != b.SizeBytes {
			return int(min(max(b.SizeBytes-a.SizeBytes, -1), 1))
		}
		return strings.Compare(a.Names[0], b.Names[0])
	})
	if most < 0 {
		return out, nil
	}
	return out[:min(len(out), most)], nil
}
