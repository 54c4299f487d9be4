// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
	"minik8s.io/minik8s/pkg/machinetest"
)

// awaitCPUs waits until a container runs on some CPUs.
func (w *world) awaitCPUs(pod string, want cpuset.CPUSet) {
	w.t.Helper()
	got := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if c := w.runtime.Find(types.UID("uid-"+pod), "c"); c != nil {
			if got = c.Resources.CPUs; got == want.String() {
				return
			}
		}
	}
	w.t.Fatalf("pod %s runs on %q, want %s", pod, got, want)
}

// A container has CPUs alone, others move off them, and a kubelet that comes later knows. Devices of nodes that the machine has not
// cannot be close to anything.
func TestManagers(t *testing.T) {
	t.Parallel()
	machine, err := topology.Read("/")
	if err != nil {
		t.Fatal(err)
	}
	all := machine.Set()
	if all.Size() < 2 {
		machinetest.Lacks(t, "needs two CPUs")
	}
	first := cpuset.New(all.List()[0])
	w := newWorld(t, fake.Config{})
	w.settings = configuration.Default()
	w.settings.CPUManagerPolicy, w.settings.ReservedSystemCPUs, w.settings.TopologyManagerPolicy = "static", first.String(), "restricted"
	stop := w.start()
	w.create(newPod("shared", nil))
	w.await("ready", "shared", ready)
	w.awaitCPUs("shared", all)

	w.create(newPod("own", func(p *corev1.Pod) {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Mi")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	}))
	before := w.await("ready", "own", ready)
	own, err := cpuset.Parse(w.runtime.Find("uid-own", "c").Resources.CPUs)
	if err != nil || own.Size() != 1 || own.Equals(first) {
		t.Fatalf("its CPUs are %s, %v", own, err)
	}
	w.awaitCPUs("shared", all.Difference(own))

	stop()
	w.create(newPod("later", nil))
	stop = w.start()
	w.await("ready", "later", ready)
	w.awaitCPUs("later", all.Difference(own))
	w.awaitCPUs("own", own)
	again := w.await("ready", "own", ready)
	if again.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Error("the pod was started again")
	}

	const name = "example.com/far"
	p := &devicePlugin{resource: name, path: "/dev/x", permissions: "rw", devices: []string{"a"}, nodes: []*devicepluginv1beta1.NUMANode{{ID: 63}}}
	p.register(t, w.dir)
	awaitDevices(t, w, name, 1, 1)
	w.create(newPod("far", wanting(name, "1")))
	far := w.await("failed", "far", phase(corev1.PodFailed))
	const refusal = "Resources cannot be allocated with Topology locality"
	if far.Status.Reason != "TopologyAffinityError" || far.Status.Message != "Pod was rejected: "+refusal {
		t.Errorf("%s: %s", far.Status.Reason, far.Status.Message)
	}
	if got := w.events("TopologyAffinityError"); !slices.Contains(got, "TopologyAffinityError: "+refusal) {
		t.Errorf("events: %v", got)
	}

	w.remove("own")
	w.await("gone", "own", func(q *corev1.Pod) bool { return q == nil })
	w.awaitCPUs("shared", all)
	stop()
}

// A kubelet whose policy does not fit what another has decided does not start, and says what to do.
func TestManagers_OtherPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	path := filepath.Join(w.dir, "cpu_manager_state")
	if err := os.WriteFile(path, []byte(`{"policyName":"static","defaultCpuSet":"0-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := New(Config{NodeName: "n1", Client: w.client, Heartbeats: w.client, Runtime: w.runtime, Network: w.network, RootDir: w.dir, NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	if err != nil {
		t.Fatal(err)
	}
	err = k.Start(t.Context())
	if want := fmt.Sprintf(`configured policy "none" differs from state checkpoint policy "static"; please drain the node and remove %s`, path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
