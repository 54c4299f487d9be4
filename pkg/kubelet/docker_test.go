// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientfake "k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/docker"
	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/ptp"
)

// inNamespace marks the process that runs in a network namespace of its own.
const inNamespace = "MINIK8S_TEST_NETNS"

const podImage = "minik8s.test/kubelet-pod:1"

// TestDocker runs pods on Docker, with real volumes, cgroups and network, in a network namespace of its own.
func TestDocker(t *testing.T) {
	machinetest.Root(t, "a pod has cgroups, mounts and a network")
	if err := docker.Check(t.Context(), "", docker.TLS{}); err != nil {
		machinetest.Lacks(t, "needs Docker: %v", err)
	}
	if os.Getenv(inNamespace) == "" {
		cmd := exec.CommandContext(t.Context(), "unshare", "--net", os.Args[0], "-test.run=^TestDocker$", "-test.v", "-test.timeout=3m")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("in the namespace: %v\n%s", err, out)
		}
		return
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	importImage(t)

	name := fmt.Sprintf("kt%d", os.Getpid())
	root, cdi := t.TempDir(), t.TempDir()
	spec := `{"cdiVersion":"0.6.0","kind":"example.com/c","containerEdits":{"env":["GREETING=by its specification"]},"devices":[
		{"name":"d","containerEdits":{"deviceNodes":[{"path":"/dev/given","hostPath":"/dev/fuse","permissions":"rw"}]}}]}`
	if err := os.WriteFile(filepath.Join(cdi, "c.json"), []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := docker.New(docker.Config{Cluster: name, Node: "n1", CDIDirs: []string{cdi}})
	if err != nil {
		t.Fatal(err)
	}
	groups := "/minik8s-test-" + name
	nodeIP := netip.MustParseAddr("192.0.2.1")
	dummy := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "node0"}, PeerName: "node1"}
	if err := netlink.LinkAdd(dummy); err != nil {
		t.Fatal(err)
	}
	for _, l := range []string{"node0", "node1"} {
		link, err := netlink.LinkByName(l)
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			t.Fatal(err)
		}
		if l == "node0" {
			if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: nodeIP.AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pool, err := ptp.New(ptp.Config{Name: name, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.251.7.0/24")}, StateDir: filepath.Join(root, "net")})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: filepath.Join(root, "kubelet"), client: clientfake.NewClientset()}
	engine := &counted{Runtime: r}
	settings := configuration.Default()
	settings.VolumeStatsAggPeriod.Duration = time.Second
	cfg := Config{Configuration: settings, NodeName: "n1", Client: w.client, Heartbeats: w.client, Runtime: engine, Network: pool, RootDir: w.dir, NodeIPs: []netip.Addr{nodeIP}, CgroupRoot: groups}
	run := func() (k *Kubelet, stop func()) {
		k, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- k.Start(ctx) }()
		stopped := false
		return k, func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Errorf("kubelet: %v", err)
			}
		}
	}
	k, stop := run()
	t.Cleanup(func() {
		stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(r.Purge(ctx), Clear(cfg.Cluster, cfg.RootDir), ClearGroups(ctx, r, cfg.CgroupRoot), cfg.Network.Purge(ctx)); err != nil {
			t.Error(err)
		}
		_ = r.Close()
	})
	if _, err := w.client.CoreV1().ConfigMaps("ns").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm", Namespace: "ns"}, Data: map[string]string{"greeting": "you"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	web := newPod("web", func(p *corev1.Pod) {
		p.UID = types.UID("uid-web-" + name)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: podImage, Args: []string{"exit", "0"}, TerminationMessagePath: "/dev/termination-log"}}
		c := &p.Spec.Containers[0]
		c.Image, c.Args = podImage, []string{"serve"}
		c.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 18080, Protocol: corev1.ProtocolTCP}}
		c.Env = []corev1.EnvVar{{Name: "GREETING", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Key: "greeting"}}}}
		c.Resources = corev1.ResourceRequirements{Requests: amounts("100m", "32Mi"), Limits: amounts("500m", "64Mi")}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/pod", "exit", "0"}}}, PeriodSeconds: 1, TimeoutSeconds: 5}
	})
	w.create(web)
	for _, p := range []*devicePlugin{
		{resource: "example.com/fuse", path: "/dev/fuse", permissions: "rw", devices: []string{"d1", "d2"}},
		{resource: "example.com/weak", path: "/dev/fuse", permissions: "r", devices: []string{"d"}},
		{resource: "example.com/cdi", cdi: "example.com/c=d", devices: []string{"d"}},
	} {
		p.register(t, w.dir)
		count := int64(len(p.devices))
		awaitDevices(t, w, corev1.ResourceName(p.resource), count, count) // a resource that a node does not know is asked for in vain
		pod, _ := strings.CutPrefix(p.resource, "example.com/")
		w.create(newPod(pod, func(q *corev1.Pod) {
			q.UID = types.UID("uid-" + pod + "-" + name)
			q.Spec.RestartPolicy = corev1.RestartPolicyNever
			wanting(corev1.ResourceName(p.resource), strconv.Itoa(len(p.devices)))(q)
			c := &q.Spec.Containers[0]
			c.Image, c.Args, c.TerminationMessagePath = podImage, []string{"open", "/dev/given"}, "/dev/termination-log"
		}))
	}
	w.create(newPod("job", func(p *corev1.Pod) {
		p.UID = types.UID("uid-job-" + name)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = podImage, []string{"say", "/dev/termination-log", "no luck"}
	}))
	for pod, want := range map[string]string{"fuse": "d1+d2", "weak": "open /dev/given: operation not permitted", "cdi": "by its specification"} {
		q := w.await("ended", pod, func(q *corev1.Pod) bool {
			return q.Status.Phase == corev1.PodSucceeded || q.Status.Phase == corev1.PodFailed
		})
		if end := q.Status.ContainerStatuses[0].State.Terminated; end == nil || end.Message != want {
			t.Errorf("%s ends with %v, want %q", pod, end, want)
		}
		w.remove(pod)
		w.await("gone", pod, func(q *corev1.Pod) bool { return q == nil })
	}
	p := w.await("ready", "web", ready)
	if p.Status.PodIP == "" || !strings.HasPrefix(p.Status.PodIP, "10.251.7.") {
		t.Errorf("pod IP %q", p.Status.PodIP)
	}
	for _, host := range []string{p.Status.PodIP + ":8080", "192.0.2.1:18080", "127.0.0.1:18080"} {
		hc := http.Client{Timeout: 5 * time.Second}
		resp, err := hc.Get("http://" + host + "/")
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != "hello" {
			t.Errorf("%s answers %q", host, body)
		}
	}
	job := w.await("failed", "job", phase(corev1.PodFailed))
	if end := job.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 || end.Message != "no luck" || end.Reason != "Error" {
		t.Errorf("end of the job: %+v", job.Status.ContainerStatuses[0].State)
	}

	h := k.host()
	id, err := h.RunningContainer(t.Context(), web.UID, "c")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Status.ContainerStatuses[0].ContainerID; got != "docker://"+id {
		t.Errorf("container id %q, want docker://%s", got, id)
	}
	var out bytes.Buffer
	code, err := h.Exec(t.Context(), id, container.ExecOptions{Command: []string{"/pod", "cat", "/etc/hosts"}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 || !strings.Contains(out.String(), p.Status.PodIP+"\tweb\n") {
		t.Errorf("exec: %d, %v: %s", code, err, out.String())
	}
	out.Reset()
	if err := h.Logs(t.Context(), id, container.LogOptions{Tail: -1}, &out, &out); err != nil || out.String() != "serving you\n" {
		t.Errorf("log %q, %v", out.String(), err)
	}
	checkLog(t, "ns_web_uid-web-"+name+"/c/0.log", "serving you")
	sum, err := h.Stats(t.Context(), false)
	if err != nil || len(sum.Pods) != 1 || len(sum.Pods[0].Containers) != 1 || sum.Pods[0].Containers[0].Memory == nil || *sum.Pods[0].Containers[0].Memory.WorkingSetBytes == 0 {
		t.Errorf("stats %+v, %v", sum, err)
	}
	measured(t, w, k, "uid-busy-"+name)
	imageVolumes(t, w, r, name)
	n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || n.Labels[corev1.LabelHostname] != "n1" || !strings.HasPrefix(n.Status.NodeInfo.ContainerRuntimeVersion, "docker://") || n.Status.Allocatable.Cpu().IsZero() {
		t.Errorf("node %+v, %v", n, err)
	}

	// Resources change in place, once.
	if n := engine.updates.Load(); n != 0 {
		t.Errorf("a container was updated %d times for nothing", n)
	}
	p.Spec.Containers[0].Resources.Limits = amounts("800m", "96Mi")
	if _, err := w.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("resized", "web", func(p *corev1.Pod) bool {
		r := p.Status.ContainerStatuses[0].Resources
		return r != nil && r.Limits.Memory().Value() == 96<<20 && engine.updates.Load() == 1
	})
	if _, c, err := r.Inspect(t.Context(), id); err != nil || c.Resources.MemoryBytes != 96<<20 || c.Resources.CPUQuota != 80000 {
		t.Errorf("resized container %+v, %v", c, err)
	}

	// What the machine cannot give is told, and changes nothing.
	resize := func(cpu string) {
		p := w.await("there", "web", func(p *corev1.Pod) bool { return p != nil })
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts(cpu, "32Mi"), Limits: amounts("1000", "96Mi")}
		if cpu != "1000" {
			p.Spec.Containers[0].Resources.Limits = amounts("800m", "96Mi")
		}
		if _, err := w.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	resize("1000")
	w.await("pending", "web", func(p *corev1.Pod) bool {
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
		return i >= 0 && p.Status.Conditions[i].Reason == corev1.PodReasonDeferred && p.Status.ContainerStatuses[0].AllocatedResources.Cpu().MilliValue() == 100
	})
	if _, c, err := r.Inspect(t.Context(), id); err != nil || c.Resources.CPUQuota != 80000 || engine.updates.Load() != 1 {
		t.Errorf("after a resize that cannot be: %+v, %v", c, err)
	}
	resize("200m")
	w.await("no longer pending", "web", func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending }) &&
			p.Status.ContainerStatuses[0].AllocatedResources.Cpu().MilliValue() == 200
	})

	// A new kubelet finds the same container, and sees it die and restarts it.
	stop()
	k, stop = run()
	w.create(newPod("other", func(p *corev1.Pod) {
		p.UID = types.UID("uid-other-" + name)
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = podImage, []string{"serve"}
	}))
	w.await("ready", "other", ready)
	h = k.host()
	if again, err := h.RunningContainer(t.Context(), web.UID, "c"); err != nil || again != id {
		t.Errorf("after a restart of the kubelet the container is %q, %v; was %q", again, err, id)
	}
	if err := r.StopContainer(t.Context(), id, 0, ""); err != nil {
		t.Fatal(err)
	}
	p = w.await("restarted", "web", func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	if l := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; l == nil || l.ContainerID != "docker://"+id {
		t.Errorf("last state %+v", p.Status.ContainerStatuses[0].LastTerminationState)
	}

	for _, name := range []string{"web", "job", "other"} {
		w.remove(name)
	}
	for _, name := range []string{"web", "job", "other"} {
		w.await("gone", name, func(p *corev1.Pod) bool { return p == nil })
	}
	// The API forgets a pod a moment before its node has forgotten it.
	for deadline := time.After(30 * time.Second); ; {
		left, err := os.ReadDir(filepath.Join(w.dir, "checkpoints"))
		if err == nil && len(left) == 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("left in checkpoints: %v %v", left, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if found, err := r.List(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("left behind: %v %v", found, err)
	}
	for _, dir := range []string{"pods", "checkpoints"} {
		if left, err := os.ReadDir(filepath.Join(w.dir, dir)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v %v", dir, left, err)
		}
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/memory" + groups + "/*/pod*"); err != nil || len(left) > 0 {
		t.Errorf("left cgroups: %v %v", left, err)
	}
	checkNoLogs(t, name)
	rules, err := exec.CommandContext(t.Context(), "iptables-save", "-t", "nat").CombinedOutput()
	if err != nil || bytes.Contains(rules, []byte("DNAT --to")) {
		t.Errorf("left rules: %s %v", rules, err)
	}

	// Clear leaves nothing in the kernel of a pod that runs.
	_, stop = run()
	w.create(newPod("last", func(p *corev1.Pod) {
		p.UID = types.UID("uid-last-" + name)
		c := &p.Spec.Containers[0]
		c.Image, c.Args = podImage, []string{"serve"}
		c.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 18080}}
	}))
	w.await("ready", "last", ready)
	stop()
	if err := errors.Join(r.Purge(t.Context()), Clear(cfg.Cluster, cfg.RootDir), ClearGroups(t.Context(), r, cfg.CgroupRoot), cfg.Network.Purge(t.Context())); err != nil {
		t.Errorf("Clear: %v", err)
	}
	rules, err = exec.CommandContext(t.Context(), "iptables-save").CombinedOutput()
	found, lerr := r.List(t.Context())
	if err != nil || lerr != nil || bytes.Contains(rules, []byte("MINIK8S")) || len(found) > 0 {
		t.Errorf("after Clear: %v %v %s %v", err, lerr, rules, found)
	}
	checkNoLogs(t, name)
	path := "/sys/fs/cgroup/memory" + groups
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", path, err)
	}
}

// checkLog checks that collectors find a line of a log.
func checkLog(t *testing.T, path, line string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/var/log/pods", path))
	if err != nil || !bytes.Contains(text, []byte(line)) {
		t.Errorf("log of %s: %v: %s", path, err, text)
	}
}

// checkNoLogs checks that nothing leads to logs of the test's pods any more.
func checkNoLogs(t *testing.T, name string) {
	t.Helper()
	left, err := filepath.Glob("/var/log/pods/*-" + name)
	links, lerr := filepath.Glob("/var/log/containers/*")
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.Contains(target, name) {
			left = append(left, l)
		}
	}
	if err != nil || lerr != nil || len(left) > 0 {
		t.Errorf("links to logs are left: %v, %v, %v", left, err, lerr)
	}
}

// counted counts the updates of containers.
type counted struct {
	container.Runtime
	updates atomic.Int32
}

func (c *counted) UpdateContainer(ctx context.Context, id string, r container.Resources) error {
	c.updates.Add(1)
	return c.Runtime.UpdateContainer(ctx, id, r)
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// importImage makes the image of testdata/pod; it is removed with the test.
func importImage(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pod")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", file, "./testdata/pod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the test program: %v\n%s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "dev/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "pod", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}} {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := tw.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.ImageImport(t.Context(), image.ImportSource{Source: &b, SourceName: "-"}, podImage, image.ImportOptions{Changes: []string{`ENTRYPOINT ["/pod"]`}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	t.Cleanup(func() {
		if _, err := c.ImageRemove(context.Background(), podImage, image.RemoveOptions{PruneChildren: true}); err != nil {
			t.Errorf("removing the test image: %v", err)
		}
		_ = c.Close()
	})
}
