// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/env"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func TestSecure(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		pod   *corev1.PodSecurityContext
		own   *corev1.SecurityContext
		image string
		safe  bool // seccompDefault
		want  container.ContainerConfig
		err   string
	}{
		{name: "nothing said, the engine's seccomp profile for all", safe: true},
		{name: "who asks for none has none", safe: true, own: &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}, want: container.ContainerConfig{Seccomp: "unconfined"}},
		{name: "privileged ones have none", safe: true, own: &corev1.SecurityContext{Privileged: new(true)}, want: container.ContainerConfig{Privileged: true, Seccomp: "unconfined", AppArmor: "unconfined"}},
		{name: "nothing said", want: container.ContainerConfig{Seccomp: "unconfined"}},
		{name: "pod's user and groups", pod: &corev1.PodSecurityContext{RunAsUser: new(int64(5)), RunAsGroup: new(int64(6)), FSGroup: new(int64(7)), SupplementalGroups: []int64{8}},
			want: container.ContainerConfig{User: "5:6", Groups: []int64{8, 7}, Seccomp: "unconfined"}},
		{name: "container's user wins", pod: &corev1.PodSecurityContext{RunAsUser: new(int64(5))}, own: &corev1.SecurityContext{RunAsUser: new(int64(9))},
			want: container.ContainerConfig{User: "9", Seccomp: "unconfined"}},
		{name: "strict groups", pod: &corev1.PodSecurityContext{SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict)}, image: "web",
			want: container.ContainerConfig{User: "web", StrictGroups: true, Seccomp: "unconfined"}},
		{name: "group with the image's user", own: &corev1.SecurityContext{RunAsGroup: new(int64(9))}, image: "web:web", want: container.ContainerConfig{User: "web:9", Seccomp: "unconfined"}},
		{name: "flags", own: &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false), ProcMount: new(corev1.UnmaskedProcMount),
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			want: container.ContainerConfig{ReadOnlyRootFilesystem: true, NoNewPrivileges: true, UnmaskedProc: true, CapAdd: []string{"NET_ADMIN"}, CapDrop: []string{"ALL"}}},
		{name: "privileged", own: &corev1.SecurityContext{Privileged: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			want: container.ContainerConfig{Privileged: true, Seccomp: "unconfined", AppArmor: "unconfined"}},
		{name: "local seccomp profile", pod: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("p.json")}},
			want: container.ContainerConfig{Seccomp: "{}"}},
		{name: "profile outside", pod: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("../../etc/passwd")}},
			err: "cannot load seccomp profile"},
		{name: "non-root by number", pod: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, image: "1000:0", want: container.ContainerConfig{User: "1000:0", Seccomp: "unconfined"}},
		{name: "non-root by name", pod: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, image: "web", err: `container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root (pod: "p_ns(u)", container: c)`},
		{name: "root by number", pod: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, image: "0", err: `container has runAsNonRoot and image will run as root (pod: "p_ns(u)", container: c)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{SecurityContext: tt.pod}}
			var got container.ContainerConfig
			err := secure(&got, pod, &corev1.Container{Name: "c", SecurityContext: tt.own}, tt.image, tt.safe, profileIn(dir))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSandbox(t *testing.T) {
	long := strings.Repeat("a", 70)
	tests := []struct {
		name string
		spec corev1.PodSpec
		want container.SandboxConfig
		err  string
	}{
		{name: "plain", want: container.SandboxConfig{Hostname: "p", PID: container.NamespaceContainer}},
		{name: "named", spec: corev1.PodSpec{Hostname: "h", Subdomain: "s"}, want: container.SandboxConfig{Hostname: "h", PID: container.NamespaceContainer}},
		{name: "full name", spec: corev1.PodSpec{Hostname: "h", Subdomain: "s", SetHostnameAsFQDN: new(true)}, want: container.SandboxConfig{Hostname: "h.s.ns.svc.cluster.local", PID: container.NamespaceContainer}},
		{name: "full name too long", spec: corev1.PodSpec{Hostname: long, Subdomain: "s", SetHostnameAsFQDN: new(true)}, err: "is too long (64 characters is the max"},
		{name: "long name is cut", spec: corev1.PodSpec{Hostname: long}, want: container.SandboxConfig{Hostname: long[:63], PID: container.NamespaceContainer}},
		{name: "override", spec: corev1.PodSpec{HostnameOverride: new("o.example")}, want: container.SandboxConfig{Hostname: "o.example", PID: container.NamespaceContainer}},
		{name: "host", spec: corev1.PodSpec{HostNetwork: true, HostPID: true, HostIPC: true},
			want: container.SandboxConfig{Network: container.NamespaceNode, PID: container.NamespaceNode, IPC: container.NamespaceNode}},
		{name: "shared processes, sysctls", spec: corev1.PodSpec{ShareProcessNamespace: new(true), SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net/ipv4/x", Value: "1"}}}},
			want: container.SandboxConfig{Hostname: "p", Sysctls: map[string]string{"net.ipv4.x": "1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(Config{RootDir: t.TempDir(), ClusterDomain: "cluster.local", ClusterDNS: []string{"10.96.0.10"}})
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: tt.spec}
			got, err := b.Sandbox(pod, 2, "/parent")
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Pod, tt.want.Attempt, tt.want.CgroupParent = container.Pod{UID: "u", Namespace: "ns", Name: "p"}, 2, "/parent"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFiles_Resolver: what a pod's resolver cannot take is left out, and its pod is told.
func TestFiles_Resolver(t *testing.T) {
	events := record.NewFakeRecorder(1)
	b := New(Config{RootDir: t.TempDir(), Recorder: events})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{
		DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}},
	}}
	cfg := container.ContainerConfig{}
	if err := b.files(&cfg, Request{Pod: pod, Container: &corev1.Container{Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	want := "Warning DNSConfigForming Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 192.0.2.1 192.0.2.2 192.0.2.3"
	if got := <-events.Events; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

// What the pod says of a variable or a path counts, what its devices need comes besides.
func TestEquip(t *testing.T) {
	t.Parallel()
	cfg := container.ContainerConfig{Mounts: []container.Mount{{HostPath: "/pod", ContainerPath: "/a/"}}, Devices: []container.Device{{HostPath: "/dev/pod"}}}
	mounts := equip(&cfg, devicemanager.Options{
		Devices:    []container.Device{{HostPath: "/dev/d"}},
		Mounts:     []container.Mount{{HostPath: "/device", ContainerPath: "/a"}, {HostPath: "/device", ContainerPath: "/b", ReadOnly: true}},
		CDIDevices: []string{"v/c=d"}, Annotations: map[string]string{"k": "v"},
	})
	want := container.ContainerConfig{
		Mounts:  []container.Mount{{HostPath: "/pod", ContainerPath: "/a/"}, {HostPath: "/device", ContainerPath: "/b", ReadOnly: true}},
		Devices: []container.Device{{HostPath: "/dev/pod"}, {HostPath: "/dev/d"}}, CDIDevices: []string{"v/c=d"}, Annotations: map[string]string{"k": "v"},
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Mounts[1:], mounts); diff != "" {
		t.Error(diff)
	}
	vars := withDevices([]string{"A=pod", "AB=pod"}, map[string]string{"A": "device", "B": "device"})
	if diff := cmp.Diff([]string{"A=pod", "AB=pod", "B=device"}, vars); diff != "" {
		t.Error(diff)
	}
}

// parts are fakes of those that a Builder asks. They keep the mounts of the spec that the volumes were asked for.
type parts struct {
	devicemanager.Options
	mounted []corev1.VolumeMount
	groups  []int64
}

func (p *parts) ContainerMounts(_ context.Context, c plugin.Container) ([]container.Mount, error) {
	p.mounted = c.Spec.VolumeMounts
	return nil, nil
}

func (p *parts) ContainerDevices(*corev1.Pod, *corev1.Container) ([]container.Device, error) {
	return nil, nil
}

func (p *parts) Source(context.Context, *corev1.Pod) env.Source { return nil }

func (p *parts) Container(context.Context, types.UID, string) (devicemanager.Options, error) {
	return p.Options, nil
}

func (p *parts) Groups(*corev1.Pod) []int64 { return p.groups }

func (p *parts) CDIDevices(*corev1.Pod, *corev1.Container) ([]string, error) { return nil, nil }

// What refers to variables finds all that the container will have: the pod's own, those of services, and those of its devices.
func TestContainer_Environment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, expr, want, err string }{
		{name: "a path", expr: "x", want: "x"},
		{name: "its own", expr: "$(OWN)", want: "o"},
		{name: "a service's", expr: "$(DB_SERVICE_HOST)", want: "192.0.2.2"},
		{name: "its own, of a service's", expr: "$(OF)", want: "at-192.0.2.2"},
		{name: "a device's", expr: "$(DEVICE)", want: "d"},
		{name: "nobody's", expr: "$(NO)/$(OWN)/$(NONE)", err: "missing value for NO, NONE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fakes := &parts{Options: devicemanager.Options{Env: map[string]string{"DEVICE": "d"}}}
			b := New(Config{
				RootDir: t.TempDir(), Volumes: fakes, Devices: fakes, Claims: fakes, HostResolvConf: os.DevNull,
				Services: func(string) ([]*corev1.Service, bool) {
					return []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Spec: corev1.ServiceSpec{ClusterIP: "192.0.2.2"}}}, true
				},
				Resources:   func(*corev1.Pod, *corev1.Container) (r container.Resources) { return r },
				OOMScoreAdj: func(*corev1.Pod, *corev1.Container) int { return 0 },
			})
			c := &corev1.Container{Name: "c", Args: []string{test.expr}, VolumeMounts: []corev1.VolumeMount{{Name: "v", SubPathExpr: test.expr}},
				Env: []corev1.EnvVar{{Name: "OWN", Value: "o"}, {Name: "OF", Value: "at-$(DB_SERVICE_HOST)"}}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}}
			cfg, err := b.Container(t.Context(), Request{Pod: pod, Container: c, Image: &container.Image{}})
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]corev1.VolumeMount{{Name: "v", SubPath: test.want}}, fakes.mounted); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{test.want}, cfg.Args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if c.VolumeMounts[0].SubPathExpr != test.expr {
				t.Error("the pod's spec was changed")
			}
		})
	}
}

// A container is in the groups of its pod's volumes beside those of its spec, each once.
func TestContainer_Groups(t *testing.T) {
	t.Parallel()
	fakes := &parts{groups: []int64{7, 1234}}
	b := New(Config{
		RootDir: t.TempDir(), Volumes: fakes, Devices: fakes, Claims: fakes, HostResolvConf: os.DevNull,
		Services:    func(string) ([]*corev1.Service, bool) { return nil, true },
		Resources:   func(*corev1.Pod, *corev1.Container) (r container.Resources) { return r },
		OOMScoreAdj: func(*corev1.Pod, *corev1.Container) int { return 0 },
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{
		DNSPolicy: corev1.DNSDefault, SecurityContext: &corev1.PodSecurityContext{SupplementalGroups: []int64{5, 7}, FSGroup: new(int64(9))},
	}}
	cfg, err := b.Container(t.Context(), Request{Pod: pod, Container: &corev1.Container{Name: "c"}, Image: &container.Image{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{5, 7, 9, 1234}, cfg.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// Without the node's resolver configuration no sandbox is made, whatever the pod asks for; one that is there keeps what it has got.
func TestResolvConf_Missing(t *testing.T) {
	t.Parallel()
	node := filepath.Join(t.TempDir(), "resolv.conf")
	fakes := &parts{}
	b := New(Config{
		RootDir: t.TempDir(), Volumes: fakes, Devices: fakes, Claims: fakes, HostResolvConf: node, ClusterDNS: []string{"10.96.0.10"},
		Services:    func(string) ([]*corev1.Service, bool) { return nil, true },
		Resources:   func(*corev1.Pod, *corev1.Container) (r container.Resources) { return r },
		OOMScoreAdj: func(*corev1.Pod, *corev1.Container) int { return 0 },
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}}
	for _, policy := range []corev1.DNSPolicy{corev1.DNSDefault, corev1.DNSClusterFirst, corev1.DNSNone} {
		other := pod.DeepCopy()
		other.Spec.DNSPolicy = policy
		if _, err := b.Sandbox(other, 0, ""); err == nil || err.Error() != "open "+node+": no such file or directory" {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if err := os.WriteFile(node, []byte("nameserver 192.0.2.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Sandbox(pod, 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(node); err != nil {
		t.Fatal(err)
	}
	cfg, err := b.Container(t.Context(), Request{Pod: pod, Container: &corev1.Container{Name: "c"}, Image: &container.Image{}})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(cfg.Mounts, func(m container.Mount) bool { return m.ContainerPath == "/etc/resolv.conf" })
	if text, err := os.ReadFile(cfg.Mounts[i].HostPath); err != nil || string(text) != "nameserver 192.0.2.53\n" {
		t.Errorf("the container has %q, %v", text, err)
	}
}

// A pod that asks for the cluster's DNS on a node that knows of none gets the node's, and two events say so.
func TestResolver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		dns    []string
		file   string
		policy corev1.DNSPolicy
		want   []string // nameservers
		events int
	}{
		{"no cluster DNS", nil, "", corev1.DNSClusterFirst, []string{"127.0.0.1"}, 2},
		{"nor asked for", nil, "", corev1.DNSDefault, []string{"127.0.0.1"}, 0},
		{"a cluster's", []string{"10.96.0.10"}, "", corev1.DNSClusterFirst, []string{"10.96.0.10"}, 0},
		{"a node without servers", nil, os.DevNull, corev1.DNSDefault, nil, 0},
	} {
		recorder := record.NewFakeRecorder(2)
		b := New(Config{ClusterDNS: tc.dns, HostResolvConf: tc.file, HostIPs: []string{"192.0.2.1"}, Node: &corev1.ObjectReference{Kind: "Node", Name: "n"}, Recorder: recorder})
		c, err := b.resolver(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{DNSPolicy: tc.policy}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, c.Nameservers); diff != "" {
			t.Errorf("%s: servers (-want +got):\n%s", tc.name, diff)
		}
		close(recorder.Events)
		var told []string
		for e := range recorder.Events {
			told = append(told, e)
		}
		const text = `kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`
		want := []string{"Warning MissingClusterDNS " + text, `Warning MissingClusterDNS pod: "p_ns(u)". ` + text}[:tc.events]
		if !slices.Equal(want, told) {
			t.Errorf("%s: told %q", tc.name, told)
		}
	}
}

// A plugin's mounts have sources on the node: what is there stays as it is, what is not becomes a directory.
func TestMakeSources(t *testing.T) {
	t.Parallel()
	root, other := t.TempDir(), t.TempDir()
	file := filepath.Join(other, "file")
	if err := os.WriteFile(file, []byte("device"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(other, "a", "b")
	if err := makeSources([]container.Mount{{HostPath: file}, {HostPath: missing}, {HostPath: "/var/lib/kubelet/plugins/p"}}, root); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "device" {
		t.Errorf("the file is %q, %v", text, err)
	}
	for _, dir := range []string{missing, filepath.Join(root, "plugins", "p")} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	if err := makeSources([]container.Mount{{HostPath: filepath.Join(file, "below")}}, root); err != nil {
		t.Errorf("what cannot be looked at is the engine's to refuse: %v", err)
	}
}

// A container that restarts while the API server is away finds the services that the one before it found, and none is made without.
func TestServices(t *testing.T) {
	root := t.TempDir()
	builder := func(known bool, list ...*corev1.Service) *Builder {
		return New(Config{RootDir: root, Services: func(string) ([]*corev1.Service, bool) { return list, known }})
	}
	service := func(namespace, name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 443}}}}
	}
	pod := func(uid, source string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: types.UID(uid), Annotations: map[string]string{"kubernetes.io/config.source": source}}}
	}
	told := []*corev1.Service{service("ns", "db", "192.0.2.2"), service("default", "kubernetes", "192.0.2.1")}
	for _, tt := range []struct {
		name    string
		builder *Builder
		pod     *corev1.Pod
		want    []string
		err     error
	}{
		{name: "nothing is known", builder: builder(false), pod: pod("a", "api"), err: errNoServices},
		{name: "a static pod needs none", builder: builder(false), pod: pod("s", "file")},
		{name: "they are known", builder: builder(true, told...), pod: pod("a", "api"), want: []string{"db 192.0.2.2:443", "kubernetes 192.0.2.1:443"}},
		{name: "the API server is away", builder: builder(false), pod: pod("a", "api"), want: []string{"kubernetes 192.0.2.1:443", "db 192.0.2.2:443"}},
		{name: "a pod that comes meanwhile", builder: builder(false), pod: pod("b", "api"), err: errNoServices},
		{name: "there are others", builder: builder(true, told[1]), pod: pod("a", "api"), want: []string{"kubernetes 192.0.2.1:443"}},
		{name: "the others are kept", builder: builder(false), pod: pod("a", "api"), want: []string{"kubernetes 192.0.2.1:443"}},
	} {
		list, err := tt.builder.services(t.Context(), tt.pod)
		var got []string
		for _, s := range list {
			got = append(got, fmt.Sprintf("%s %s:%d", s.Name, s.Spec.ClusterIP, s.Spec.Ports[0].Port))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, services (-want +got):\n%s", tt.name, err, diff)
		}
	}
}
