// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/machinetest"
)

func TestEdit(t *testing.T) {
	t.Parallel()
	nodes := func(path string) (node, error) {
		switch path {
		case "/dev/a":
			return node{kind: "c", major: 1, minor: 3, mode: 0o660, gid: 44}, nil
		case "/dev/b":
			return node{kind: "b", major: 8, mode: 0o600}, nil
		}
		return node{}, errors.New(path + " is no device")
	}
	made := func(n node) (string, error) {
		if n.uid == 13 {
			return "", errors.New("no node for 13")
		}
		return fmt.Sprintf("/made/%s %d:%d %04o %d:%d", n.kind, n.major, n.minor, n.mode, n.uid, n.gid), nil
	}
	// other is a container with the device as the machine does not have it.
	other := func(path, node string) container.ContainerConfig {
		return container.ContainerConfig{Devices: []container.Device{{HostPath: "/made/" + node, ContainerPath: path, Permissions: "rwm"}}}
	}
	dev := func(n specs.DeviceNode) specs.ContainerEdits {
		n.Path = "/dev/a"
		return specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{&n}}
	}
	mount := func(kind string, options ...string) specs.ContainerEdits {
		return specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: "/h", ContainerPath: "/c", Type: kind, Options: options}}}
	}
	a := container.ContainerConfig{Devices: []container.Device{{HostPath: "/dev/a", ContainerPath: "/dev/a", Permissions: "rwm"}}}
	for _, tc := range []struct {
		name  string
		have  container.ContainerConfig
		edits specs.ContainerEdits
		want  container.ContainerConfig
		err   string
	}{
		{name: "nothing"},
		{
			name: "variables", have: container.ContainerConfig{Env: []string{"A=pod", "AB=pod"}},
			edits: specs.ContainerEdits{Env: []string{"A=first", "B=x=y", "A=second"}},
			want:  container.ContainerConfig{Env: []string{"AB=pod", "B=x=y", "A=second"}},
		},
		{
			name: "a device in place of another", have: container.ContainerConfig{Devices: []container.Device{{HostPath: "/dev/z", ContainerPath: "/dev/x"}}},
			edits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/x", HostPath: "/dev/b", Permissions: "r"}}},
			want:  container.ContainerConfig{Devices: []container.Device{{HostPath: "/dev/b", ContainerPath: "/dev/x", Permissions: "r"}}},
		},
		{name: "a device as it is", edits: dev(specs.DeviceNode{Type: "u", Major: 1, Minor: 3, FileMode: new(os.FileMode(0o660)), UID: new(uint32(0)), GID: new(uint32(44))}), want: a},
		{name: "no device", edits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/none"}}}, err: "CDI device injection failed: /none is no device"},
		{name: "another type", edits: dev(specs.DeviceNode{Type: "b"}), want: other("/dev/a", "b 1:3 0660 0:44")},
		{name: "another number", edits: dev(specs.DeviceNode{Major: 1, Minor: 4}), want: other("/dev/a", "c 1:4 0660 0:44")},
		{name: "another mode", edits: dev(specs.DeviceNode{FileMode: new(os.FileMode(0o666))}), want: other("/dev/a", "c 1:3 0666 0:44")},
		{name: "another owner", edits: dev(specs.DeviceNode{UID: new(uint32(5)), GID: new(uint32(6))}), want: other("/dev/a", "c 1:3 0660 5:6")},
		{
			name:  "one that the machine has not",
			edits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/tmp/d", Type: "b", Major: 7, Minor: 1}}}, want: other("/tmp/d", "b 7:1 0666 0:0"),
		},
		{
			name:  "one of which only the number is said",
			edits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/none", Major: 7}}}, err: "CDI device injection failed: /none is no device",
		},
		{name: "one that cannot be made", edits: dev(specs.DeviceNode{UID: new(uint32(13))}), err: "CDI device injection failed: no node for 13"},
		{name: "a pipe", edits: dev(specs.DeviceNode{Type: "p"}), err: `device /dev/a of type "p"`},
		{name: "no permission", edits: dev(specs.DeviceNode{Permissions: "none"}), err: "device /dev/a without any permission"},
		{
			name: "a mount in place of another", have: container.ContainerConfig{Mounts: []container.Mount{{HostPath: "/p", ContainerPath: "/c"}, {HostPath: "/p", ContainerPath: "/d"}}},
			edits: mount("", "ro", "bind", "rslave"),
			want: container.ContainerConfig{Mounts: []container.Mount{{HostPath: "/p", ContainerPath: "/d"},
				{HostPath: "/h", ContainerPath: "/c", ReadOnly: true, NonRecursive: true, Propagation: "rslave"}}},
		},
		{name: "a mount with all below", edits: mount("bind", "rw", "rbind", "rprivate"), want: container.ContainerConfig{Mounts: []container.Mount{{HostPath: "/h", ContainerPath: "/c"}}}},
		{name: "another mount", edits: mount("tmpfs"), err: "mount /c of type tmpfs"},
		{name: "another option", edits: mount("", "ro", "nosuid"), err: "mount /c with option nosuid"},
		{
			name: "groups", have: container.ContainerConfig{Groups: []int64{7}}, edits: specs.ContainerEdits{AdditionalGIDs: []uint32{7, 0, 9}},
			want: container.ContainerConfig{Groups: []int64{7, 9}},
		},
		{
			name: "no means",
			edits: specs.ContainerEdits{
				Hooks:    []*specs.Hook{{HookName: "createContainer"}, {HookName: "createContainer"}},
				IntelRdt: &specs.IntelRdt{}, NetDevices: []*specs.LinuxNetDevice{{HostInterfaceName: "eth1"}},
			},
			err: "CDI device injection failed: the engine has no means for Intel RDT, a hook (createContainer), a network device (eth1)",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.have.CDIDevices = []string{"v/c=d"}
			got, err := edit(tc.have, &tc.edits, machine{stat: nodes, make: made})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

// What is for all devices of a file comes once. The last folder counts most, and who reads sees what is there now.
func TestInject(t *testing.T) {
	t.Parallel()
	low, high, nodes := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(low, "v.yaml", `
cdiVersion: 0.7.0
kind: vendor.com/thing
containerEdits: {env: [ALL=1], additionalGids: [5]}
devices:
- {name: a, containerEdits: {env: [A=low]}}
- {name: b, containerEdits: {deviceNodes: [{path: /dev/given, hostPath: /dev/null, permissions: rw}]}}
`)
	write(high, "w.json", `{"cdiVersion":"0.6.0","kind":"vendor.com/thing","devices":[{"name":"a","containerEdits":{"env":["A=high"]}}]}`)
	c := container.ContainerConfig{Image: "i", CDIDevices: []string{"vendor.com/thing=b", "vendor.com/thing=a"}}
	got, err := Inject(c, nodes, low, high)
	want := container.ContainerConfig{
		Image: "i", Env: []string{"ALL=1", "A=high"}, Groups: []int64{5},
		Devices: []container.Device{{HostPath: "/dev/null", ContainerPath: "/dev/given", Permissions: "rw"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if err := os.Remove(filepath.Join(high, "w.json")); err != nil {
		t.Fatal(err)
	}
	if got, err = Inject(c, nodes, low, high); err != nil || got.Env[1] != "A=low" {
		t.Errorf("%v, %v", got.Env, err)
	}
	write(low, "v.yaml", "cdiVersion: 0.7.0\nkind: vendor.com/thing\ndevices: []\n")
	_, err = Inject(c, nodes, low, high)
	if err == nil || !strings.Contains(err.Error(), "unresolvable CDI devices vendor.com/thing=b, vendor.com/thing=a; ") || !strings.Contains(err.Error(), "v.yaml") {
		t.Errorf("got %v", err)
	}
	plain := container.ContainerConfig{Image: "i"}
	if got, err := Inject(plain, nodes, filepath.Join(low, "none")); err != nil || !cmp.Equal(got, plain) {
		t.Errorf("%v, %v", got, err)
	}
}

// A device node is made once, as it is to be, and nothing else is left.
func TestMknod(t *testing.T) {
	t.Parallel()
	machinetest.Root(t, "device nodes are root's to make")
	dir := filepath.Join(t.TempDir(), "nodes")
	want := node{kind: "b", major: 1, minor: 300, mode: 0o640, uid: 5, gid: 6}
	path, err := mknod(dir, want)
	have, serr := stat(path)
	if err != nil || serr != nil || have != want {
		t.Fatalf("%v, %v, %+v", err, serr, have)
	}
	before, _ := os.Stat(path)
	for range 2 {
		again, err := mknod(dir, want)
		if err != nil || again != path {
			t.Errorf("again: %s, %v", again, err)
		}
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("it was made again: %v", err)
	}
	// A kubelet was killed while it made the node.
	if err := errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := mknod(dir, want); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if have, err := stat(path); err != nil || have != want {
		t.Errorf("half made before: %v, %+v", err, have)
	}
	// What has come in its place is no such node.
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := mknod(dir, want); err != nil {
		t.Error(err)
	}
	if have, err := stat(path); err != nil || have != want {
		t.Errorf("%v, %+v", err, have)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}
