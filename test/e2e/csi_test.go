// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	csiDriver = "test.csi.minik8s.io"
	csiImage  = "minik8s.io/csitest:1"
	// standardDir is where drivers look for the kubelet's directory.
	standardDir = "/var/lib/kubelet"
)

// buildDriver makes the image of the driver.
func buildDriver(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "driver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./pkg/kubelet/csitest/program")
	build.Dir, build.Env = suite.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the driver: %v: %s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = w.WriteHeader(&tar.Header{Name: "driver", Mode: 0o755, Size: int64(len(data))})
	if err == nil {
		_, err = w.Write(data)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	load := exec.CommandContext(t.Context(), "docker", "import", "--change", `ENTRYPOINT ["/driver"]`, "-", csiImage)
	load.Stdin = io.Reader(&layer)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("importing the driver's image: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "docker", "image", "rm", "-f", csiImage).CombinedOutput(); err != nil {
			t.Errorf("removing the driver's image: %v: %s", err, out)
		}
	})
}

// driverPod runs the driver on a node as its users do: privileged, with the kubelet's directory mounted by its usual name, both ways.
func driverPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "driver-" + node},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name: "driver", Image: csiImage, Args: []string{"-name=" + csiDriver, "-node=" + node, "-data=" + filepath.Join(standardDir, "plugins", csiDriver, "data")},
				SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
				VolumeMounts:    []corev1.VolumeMount{{Name: "kubelet", MountPath: standardDir, MountPropagation: ptr.To(corev1.MountPropagationBidirectional)}},
			}},
			Volumes: []corev1.Volume{{Name: "kubelet", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: standardDir, Type: ptr.To(corev1.HostPathDirectory)}}}},
		},
	}
}

// csiVolume makes a claim with a volume of the driver of a node, which is there, in data.
func (k *kube) csiVolume(t *testing.T, ns, name, node, data string) corev1.VolumeSource {
	t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec = corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: ns, Name: name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: name, FSType: "none"}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology." + csiDriver + "/node", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec = corev1.PersistentVolumeClaimSpec{StorageClassName: new(""), AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: name}
	_, err := k.client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{})
	if err == nil {
		_, err = k.client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), c, metav1.CreateOptions{})
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(data, name), 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// attach says that the volume is attached whose attachment the controller has made, as the driver's attacher would.
func (k *kube) attach(t *testing.T, volume string) {
	t.Helper()
	eventually(t, 30*time.Second, "the attachment of "+volume, func(ctx context.Context) error {
		list, err := k.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, a := range list.Items {
			if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") != volume {
				continue
			}
			if len(mountsOf(t)) > 0 {
				t.Error("it is mounted before it is attached")
			}
			a.Status.Attached = true
			_, err := k.client.StorageV1().VolumeAttachments().UpdateStatus(ctx, &a, metav1.UpdateOptions{})
			return err
		}
		return errors.New("there is none")
	})
}

// mountsOf are the mounts of volumes of drivers.
func mountsOf(t *testing.T) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); strings.HasPrefix(f[4], suite.dir) && (strings.Contains(f[4], "kubernetes.io~csi") || strings.Contains(f[4], "globalmount")) {
			out = append(out, f[4])
		}
	}
	return out
}

// post has a store keep a message.
func (k *kube) post(t *testing.T, ns, pod, text string) {
	t.Helper()
	eventually(t, 20*time.Second, "a message is stored", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Status.PodIP+":8080/v1/messages", strings.NewReader(`{"text":"`+text+`"}`))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer token")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode/100 != 2 {
			return fmt.Errorf("the store answers %s", answer.Status)
		}
		return nil
	})
}

// A CSI driver that runs in a pod on each of two nodes, as its users run it, brings a volume to a pod of the second; all outlive the
// process, and nothing of the volume stays on the node when the pod goes.
func TestCSI(t *testing.T) {
	c := newCluster(t, "csi")
	k := up(t, c, "--nodes", "2")
	nodes, err := k.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	i := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool {
		_, err := os.Stat(filepath.Join(c.DataDir, "nodes", n.Name))
		return err == nil
	})
	if i < 0 {
		t.Fatal("no node has a directory of its own")
	}
	second := nodes.Items[i].Name
	data := filepath.Join(c.DataDir, "nodes", second, "kubelet", "plugins", csiDriver, "data")
	buildDriver(t)
	const ns = "default"
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csiDriver}}
	object.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	object.Spec.PodInfoOnMount = new(true)
	if _, err := k.client.StorageV1().CSIDrivers().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if _, err := k.client.CoreV1().Pods(ns).Create(t.Context(), driverPod(n.Name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 60*time.Second, "the driver of each node in its CSINode", func(ctx context.Context) error {
		for _, n := range nodes.Items {
			found, err := k.client.StorageV1().CSINodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if d := found.Spec.Drivers; len(d) != 1 || d[0].NodeID != n.Name || *d[0].Allocatable.Count != 8 {
				return fmt.Errorf("on %s there is %+v", n.Name, d)
			}
		}
		return nil
	})

	claim := k.csiVolume(t, ns, "disk", second, data)
	if _, err := k.client.CoreV1().Pods(ns).Create(t.Context(), storePod("store", claim), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.attach(t, "disk")
	eventually(t, 60*time.Second, "the store Ready", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, "store", metav1.GetOptions{})
		if err == nil && !isReady(p) {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
	own := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: csiDriver, FSType: new("none")}}
	ofOwn := storePod("own", own)
	ofOwn.Spec.NodeSelector = map[string]string{corev1.LabelHostname: second}
	k.runStore(t, ns, ofOwn)
	k.post(t, ns, "store", "before")
	if n := len(mountsOf(t)); n != 3 { // staged once, published once, and the pod's own
		t.Errorf("%d mounts: %v", n, mountsOf(t))
	}
	kill(t, k)
	k = up(t, k.Cluster, "--nodes", "2")
	k.post(t, ns, "store", "after")
	messages, err := os.ReadFile(filepath.Join(data, "disk", "messages"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(messages), "before", "after")

	k.kubectl(t, "delete", "pod", "store", "own")
	eventually(t, 60*time.Second, "nothing mounted, and the volume detached", func(ctx context.Context) error {
		if left := mountsOf(t); len(left) > 0 {
			return fmt.Errorf("mounted are %v", left)
		}
		list, err := k.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("attached is %s", list.Items[0].Name)
		}
		return err
	})
	for _, n := range nodes.Items {
		name := driverPod(n.Name).Name
		k.kubectl(t, "delete", "pod", name)
		if _, err := k.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the driver: %v", err)
		}
	}
}
