// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/fsgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/machinetest"
)

func claim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid"}}
	c.Spec.VolumeName, c.Status.Phase = "v", corev1.ClaimBound
	for _, f := range change {
		f(c)
	}
	return c
}

func volume(source corev1.PersistentVolumeSource, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	v.Spec.PersistentVolumeSource = source
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "uid"}
	for _, f := range change {
		f(v)
	}
	return v
}

func mountOf(t *testing.T, source corev1.VolumeSource, security *corev1.PodSecurityContext) plugin.Mount {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "pod"}}
	pod.Spec.SecurityContext = security
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}}
	return plugin.Mount{Pod: pod, Volume: &pod.Spec.Volumes[0], Dir: volumeDir(t, t.TempDir(), "pod")}
}

// volumeDir makes the place of a pod's volume within the kubelet's directory.
func volumeDir(t *testing.T, root, uid string) string {
	t.Helper()
	dir := filepath.Join(root, "pods", uid, "volumes", "kind")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "data")
}

// noDrivers is a node that has none.
type noDrivers struct{}

func (noDrivers) Due(types.UID, string) (known, due bool) { return false, false }

func (noDrivers) Holds(types.UID, string) bool { return false }

func (noDrivers) SetUpClaim(context.Context, plugin.Mount, *corev1.PersistentVolume, *corev1.PersistentVolumeClaim) (string, error) {
	return "", errors.New("no drivers")
}

var byClaim = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: true}}

func TestSetUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	local := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}
	missing := filepath.Join(dir, "missing")
	now := metav1.Now()
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		source  corev1.VolumeSource
		want    string // path
		err     string
	}{
		{"local", []runtime.Object{claim(), volume(local)}, byClaim, dir, ""},
		{"hostPath", []runtime.Object{claim(), volume(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: filepath.Join(dir, "made"), Type: new(corev1.HostPathDirectoryOrCreate),
		}})}, byClaim, filepath.Join(dir, "made"), ""},
		{"claim that a pod still uses", []runtime.Object{claim(func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = &now, []string{protection}
		}), volume(local)}, byClaim, dir, ""},
		{"no directory", []runtime.Object{claim(), volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: missing}})}, byClaim,
			"", `MountVolume.SetUp failed for volume "v" : path "` + missing + `" does not exist`},
		{"another kind", []runtime.Object{claim(), volume(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}})}, byClaim,
			"", `MountVolume.SetUp failed for volume "v" : PersistentVolume v is of kind iscsi, which is not supported by this kubelet`},
		{"directory as block device", []runtime.Object{claim(), volume(local, func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })},
			byClaim, "", fmt.Sprintf(`MapVolume.SetUpDevice failed for volume "v" : path %q is not a block device`, dir)},
		{"host path as block device", []runtime.Object{claim(), volume(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}, func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })},
			byClaim, "", `MapVolume.SetUpDevice failed for volume "v" : PersistentVolume v of kind hostPath has volumeMode Block, which this kubelet supports for local and csi volumes only`},
		{"on this node", []runtime.Object{claim(), volume(local, on("here"))}, byClaim, dir, ""},
		{"on another node", []runtime.Object{claim(), volume(local, on("there"))}, byClaim,
			"", `MountVolume.NodeAffinity check failed for volume "v" : no matching NodeSelectorTerms`},
		{"mount options", []runtime.Object{claim(), volume(local, func(v *corev1.PersistentVolume) { v.Spec.MountOptions = []string{"noexec", "ro"} })}, byClaim,
			"", `MountVolume.SetUp failed for volume "v" : PersistentVolume v has mountOptions "noexec,ro", which volumes of kind local do not support on this node: they are directories, not mounted`},
		{"claim not bound", []runtime.Object{claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })}, byClaim,
			"", "error processing PVC ns/c: PVC is not bound"},
		{"claim deleted", []runtime.Object{claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp, c.Finalizers = &now, []string{"f"} })}, byClaim,
			"", "error processing PVC ns/c: PVC is being deleted"},
		{"no claim", nil, byClaim, "", `error processing PVC ns/c: failed to fetch PVC from API server: persistentvolumeclaims "c" not found`},
		{"volume of another claim", []runtime.Object{claim(), volume(local, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" })}, byClaim,
			"", "error processing PVC ns/c: found PV object v but its pv.Spec.ClaimRef.UID other does not point to claim.UID uid"},
		{"own claim", []runtime.Object{claim(func(c *corev1.PersistentVolumeClaim) {
			c.Name = "p-data"
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "pod", Controller: new(true)}}
		}), volume(local)}, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, dir, ""},
		{"somebody's claim under the name of the own one", []runtime.Object{claim(func(c *corev1.PersistentVolumeClaim) { c.Name = "p-data" }), volume(local)},
			corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, "", "PVC ns/p-data was not created for pod ns/p (pod is not owner)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(tc.objects...), Node: here}
			m := mountOf(t, tc.source, nil)
			if !p.Supports(m.Volume) {
				t.Fatal("not supported")
			}
			err := p.SetUp(t.Context(), m)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error is %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := p.HostPath(m); got != tc.want {
				t.Errorf("path is %s, want %s", got, tc.want)
			}
			if want := tc.source.PersistentVolumeClaim != nil; p.ReadOnly(m) != want {
				t.Errorf("read-only is %t, want %t", !want, want)
			}
			if info, err := os.Stat(tc.want); err != nil || !info.IsDir() {
				t.Errorf("directory: %v", err)
			}
		})
	}
}

func here() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"place": "here"}}}
}

// on gives a volume an affinity to the nodes of a place.
func on(place string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "place", Operator: corev1.NodeSelectorOpIn, Values: []string{place}}},
		}}}}
	}
}

// TestSetUp_NodeUnknown: a volume with an affinity waits for the node.
func TestSetUp_NodeUnknown(t *testing.T) {
	t.Parallel()
	v := volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: t.TempDir()}}, on("here"))
	p := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), v), Node: func() *corev1.Node { return nil }}
	if err := p.SetUp(t.Context(), mountOf(t, byClaim, nil)); !errors.Is(err, plugin.ErrUnavailable) {
		t.Errorf("error is %v", err)
	}
}

// What a volume's annotation says of a group is kept for the containers of its pod, and for the kubelet after this one.
func TestGroup(t *testing.T) {
	t.Parallel()
	m, path := mountOf(t, byClaim, nil), t.TempDir()
	for _, tc := range []struct {
		annotation string
		want       int64
		is         bool
	}{{"1234", 1234, true}, {"5", 5, true}, {"staff", 0, false}, {"", 0, false}} {
		v := volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}, func(v *corev1.PersistentVolume) {
			v.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": tc.annotation}
		})
		if err := os.Remove(m.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := (&PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), v), Node: here}).SetUp(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if gid, is := (&PersistentVolume{}).Group(m); gid != tc.want || is != tc.is {
			t.Errorf("%q: got %d, %t", tc.annotation, gid, is)
		}
	}
}

// TestSetUp_OncePod: with ReadWriteOncePod a second pod waits until the first has left.
func TestSetUp_OncePod(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	v := volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: t.TempDir()}}, func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	p := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), v), Node: here}
	of := func(uid string) plugin.Mount {
		m := mountOf(t, byClaim, nil)
		m.Pod.UID, m.Dir = types.UID(uid), volumeDir(t, root, uid)
		return m
	}
	first, second := of("first"), of("second")
	if err := os.WriteFile(filepath.Join(root, "pods", "file"), nil, 0o600); err != nil { // which is no pod
		t.Fatal(err)
	}
	for range 2 {
		if err := p.SetUp(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SetUp(t.Context(), second); err == nil || err.Error() != `MountVolume.SetUp failed for volume "v" : volume uses the ReadWriteOncePod access mode and is already in use by another pod` {
		t.Errorf("a second pod: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(root, "pods", "first")); err != nil {
		t.Fatal(err)
	}
	if err := p.SetUp(t.Context(), second); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

// TestSetUp_APIServerAway: pods that have their volume go on, others wait.
func TestSetUp_APIServerAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client := fake.NewClientset(claim(), volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}))
	p, m := &PersistentVolume{CSI: noDrivers{}, Client: client}, mountOf(t, byClaim, nil)
	if err := p.SetUp(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	p = &PersistentVolume{CSI: noDrivers{}, Client: client}
	if err := p.SetUp(t.Context(), m); err != nil || p.HostPath(m) != dir {
		t.Errorf("after a restart: path %s, %v", p.HostPath(m), err)
	}
	if err := p.SetUp(t.Context(), mountOf(t, byClaim, nil)); !errors.Is(err, plugin.ErrUnavailable) {
		t.Errorf("error is %v", err)
	}
}

// A directory of the node may go when the machine starts anew, below /tmp for one: it is looked for, and made again if its kind says so.
func TestSetUp_DirectoryGone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source func(dir string) corev1.PersistentVolumeSource
		made   bool
	}{
		"host path": {func(dir string) corev1.PersistentVolumeSource {
			return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: new(corev1.HostPathDirectoryOrCreate)}}
		}, true},
		"local": {func(dir string) corev1.PersistentVolumeSource {
			return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}
		}, false},
	} {
		dir := t.TempDir()
		p, m := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), volume(tc.source(dir)))}, mountOf(t, byClaim, nil)
		if err := errors.Join(p.SetUp(t.Context(), m), os.Remove(dir)); err != nil {
			t.Fatal(err)
		}
		err := p.SetUp(t.Context(), m)
		if info, serr := os.Stat(dir); tc.made != (err == nil && serr == nil && info.IsDir()) {
			t.Errorf("%s: %v, %v", name, err, serr)
		}
		if want := fmt.Sprintf(`MountVolume.SetUp failed for volume "v" : path %q does not exist`, dir); !tc.made && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestSetUp_FSGroup(t *testing.T) {
	t.Parallel()
	machinetest.Root(t, "to give files away")
	const group = 4711
	writable := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		source corev1.VolumeSource
		policy *corev1.PodFSGroupChangePolicy
		given  bool // the root is the group's already
		want   fs.FileMode
	}{
		"always":                         {source: writable, given: true, want: 0o660},
		"on mismatch":                    {source: writable, policy: new(corev1.FSGroupChangeOnRootMismatch), want: 0o660},
		"on mismatch, and there is none": {source: writable, policy: new(corev1.FSGroupChangeOnRootMismatch), given: true, want: 0o600},
		"read-only":                      {source: byClaim, want: 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "sub", "file")
			if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
				t.Fatal(err)
			}
			if tc.given {
				given := mountOf(t, writable, &corev1.PodSecurityContext{FSGroup: new(int64(group))})
				if err := fsgroup.Apply(t.Context(), given, dir, func(string) {}); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}))}
			security := &corev1.PodSecurityContext{FSGroup: new(int64(group)), FSGroupChangePolicy: tc.policy}
			if err := p.SetUp(t.Context(), mountOf(t, tc.source, security)); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil || info.Mode() != tc.want {
				t.Errorf("mode of a file is %v, want %v (%v)", info.Mode(), tc.want, err)
			}
			if info, err := os.Stat(outside); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode of what a link leads to is %v (%v)", info.Mode(), err)
			}
		})
	}
}

// What one pod has is not taken from its group for another pod, which is told.
func TestSetUp_FSGroupOfAnother(t *testing.T) {
	t.Parallel()
	machinetest.Root(t, "to give files away")
	root, dir := t.TempDir(), t.TempDir()
	recorder := record.NewFakeRecorder(10)
	p := &PersistentVolume{CSI: noDrivers{}, Recorder: recorder, Client: fake.NewClientset(claim(), volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}))}
	for _, step := range []struct {
		pod   string
		group int64
		want  uint32 // group of the volume
		told  string
	}{
		{"a", 4711, 4711, ""},
		{"b", 4712, 4711, "Warning AlreadyMountedVolume The requested fsGroup is 4712, but the volume v has GID 4711. The volume may not be shareable."},
		{"c", 4711, 4711, ""},
		{"d", 4713, 4713, ""}, // when the others have left
	} {
		if step.pod == "d" {
			if err := os.RemoveAll(filepath.Join(root, "pods")); err != nil {
				t.Fatal(err)
			}
		}
		m := mountOf(t, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}, &corev1.PodSecurityContext{FSGroup: &step.group})
		m.Pod.UID, m.Dir = types.UID(step.pod), volumeDir(t, root, step.pod)
		if err := p.SetUp(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		var have unix.Stat_t
		if err := unix.Stat(dir, &have); err != nil || have.Gid != step.want {
			t.Errorf("pod %s: the volume is of group %d, %v", step.pod, have.Gid, err)
		}
		told := ""
		if len(recorder.Events) > 0 {
			told = <-recorder.Events
		}
		if told != step.told {
			t.Errorf("pod %s: told %q", step.pod, told)
		}
	}
}

// A local volume that is a block device and is to be mounted has a file system, which each pod has mounted for itself.
func TestDeviceMounted(t *testing.T) {
	t.Parallel()
	machinetest.Root(t, "to make a device node")
	node := filepath.Join(t.TempDir(), "node")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
		machinetest.Lacks(t, "making a device node: %v", err)
	}
	for _, tc := range []struct {
		readOnly bool
		want     string
	}{{false, "xfs " + node + " noatime"}, {true, "xfs " + node + " noatime ro"}} {
		m := mountOf(t, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: tc.readOnly}}, nil)
		m.Pod.Spec.Containers = []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "data"}}}}
		v := volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: node, FSType: new("xfs")}}, func(v *corev1.PersistentVolume) {
			v.Spec.MountOptions = []string{"noatime"}
		})
		mounts := &mount.Fake{}
		p := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), v), Node: func() *corev1.Node { return nil }, Mounts: mounts}
		for range 2 {
			if err := p.SetUp(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		dir := p.HostPath(m)
		if got := mounts.Devices[dir]; got != tc.want || len(mounts.Devices) != 1 {
			t.Errorf("mounted are %v, want %q on %s", mounts.Devices, tc.want, dir)
		}
		// The machine has started anew.
		if err := mounts.Unmount(dir); err != nil {
			t.Fatal(err)
		}
		if err := p.SetUp(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if ok, err := mounts.Mounted(dir); err != nil || !ok {
			t.Errorf("after a restart it is not mounted: %v", err)
		}
	}
}

// A local volume that is a block device goes to the containers that name it as one, and to no others.
func TestBlock(t *testing.T) {
	t.Parallel()
	machinetest.Root(t, "to make a device node")
	dir := t.TempDir()
	node, link := filepath.Join(dir, "node"), filepath.Join(dir, "link")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
		machinetest.Lacks(t, "making a device node: %v", err)
	}
	if err := os.Symlink(node, link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		mode     corev1.PersistentVolumeMode
		path     string
		readOnly bool
		use      corev1.Container
		err      string
	}{
		{"a device", corev1.PersistentVolumeBlock, node, false, corev1.Container{VolumeDevices: []corev1.VolumeDevice{{Name: "data"}}}, ""},
		{"a link to one, to be read", corev1.PersistentVolumeBlock, link, true, corev1.Container{VolumeDevices: []corev1.VolumeDevice{{Name: "data"}}}, ""},
		{"a device that is mounted", corev1.PersistentVolumeBlock, node, false, corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "data"}}}, "volume data has volumeMode Block, but is specified in volumeMounts"},
		{"a directory as device", corev1.PersistentVolumeFilesystem, dir, false, corev1.Container{VolumeDevices: []corev1.VolumeDevice{{Name: "data"}}}, "volume data has volumeMode Filesystem, but is specified in volumeDevices"},
		{"nothing there", corev1.PersistentVolumeBlock, filepath.Join(dir, "none"), false, corev1.Container{VolumeDevices: []corev1.VolumeDevice{{Name: "data"}}}, fmt.Sprintf(`MapVolume.SetUpDevice failed for volume "v" : path %q does not exist`, filepath.Join(dir, "none"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: tc.readOnly}}
			m := mountOf(t, source, nil)
			m.Pod.Spec.Containers = []corev1.Container{tc.use}
			v := volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: tc.path}}, func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &tc.mode })
			told := record.NewFakeRecorder(10)
			p := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), v), Node: func() *corev1.Node { return nil }, Recorder: told}
			err := p.SetUp(t.Context(), m)
			if err != nil || tc.err != "" {
				if err == nil || err.Error() != tc.err || len(told.Events) > 0 {
					t.Fatalf("got %v, want %q", err, tc.err)
				}
				if _, _, err := p.Device(m); err == nil {
					t.Error("what was refused is a device")
				}
				return
			}
			path, readOnly, err := p.Device(m)
			if err != nil || path != node || readOnly != tc.readOnly {
				t.Errorf("got %s, %t, %v", path, readOnly, err)
			}
			if err := p.SetUp(t.Context(), m); err != nil {
				t.Error(err)
			}
			close(told.Events)
			want := fmt.Sprintf("Normal SuccessfulMountVolume MapVolume.MapPodDevice succeeded for volume %q volumeMapPath %q", "v", m.Dir)
			if got := <-told.Events; got != want || len(told.Events) > 0 {
				t.Errorf("told %q and %d more, want %q", got, len(told.Events), want)
			}
		})
	}
}

// TestSetUp_NFS mounts what a server has for each pod, again after the machine has started anew, and for one pod only if it is to be so.
func TestSetUp_NFS(t *testing.T) {
	t.Parallel()
	source := corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}
	once := volume(source, func(v *corev1.PersistentVolume) {
		v.Spec.MountOptions = []string{"nfsvers=4.1", "soft"}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	mounts := &mount.Fake{NoServer: errors.New("no route to host")}
	p := &PersistentVolume{CSI: noDrivers{}, Client: fake.NewClientset(claim(), once), Node: here, Mounts: mounts}
	m := mountOf(t, byClaim, nil)
	if err := p.SetUp(t.Context(), m); err == nil || err.Error() != `MountVolume.SetUp failed for volume "v" : no route to host` || p.HostPath(m) != m.Dir {
		t.Errorf("a server that is away: %v, %s", err, p.HostPath(m))
	}
	mounts.NoServer = nil
	dir := filepath.Join(filepath.Dir(filepath.Dir(m.Dir)), "kubernetes.io~nfs/pv~v")
	for _, again := range []bool{false, true} {
		mounts.Remotes = nil
		if again {
			if err := mounts.Unmount(dir); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := p.SetUp(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := mounts.Remotes[dir], "nfs s:/p nfsvers=4.1 soft"; got != want || p.HostPath(m) != dir {
			t.Errorf("again %v: mounted %q on %s, want %q on %s", again, got, p.HostPath(m), want, dir)
		}
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(m.Dir)))))
	other := m
	other.Pod, other.Dir = m.Pod.DeepCopy(), volumeDir(t, root, "other")
	other.Pod.UID = "other"
	if err := p.SetUp(t.Context(), other); err == nil || err.Error() != `MountVolume.SetUp failed for volume "v" : volume uses the ReadWriteOncePod access mode and is already in use by another pod` {
		t.Errorf("another pod: %v", err)
	}
}
