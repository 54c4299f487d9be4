// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// storePod is a pod that keeps messages in a volume at /data.
func storePod(name string, volume corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			// Neither root nor the owner of the volume.
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](4711), FSGroup: ptr.To[int64](4712)},
			Containers: []corev1.Container{{
				Name: "store", Image: "minik8s.io/guestbook-store:1", Args: []string{"leader"},
				Env:          []corev1.EnvVar{{Name: "STORE_TOKEN", Value: "token"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: volume}},
		},
	}
}

// runStore creates the pod and waits until it is Ready.
func (k *kube) runStore(t *testing.T, ns string, pod *corev1.Pod) {
	t.Helper()
	if _, err := k.client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "pod "+pod.Name+" Ready", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && !isReady(p) {
			err = fmt.Errorf("it is %s: %v", p.Status.Phase, p.Status.Conditions)
		}
		return err
	})
}

// messages are the lines that a store keeps, read on the node.
func messages(t *testing.T, volume *corev1.PersistentVolume) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(volume.Spec.Local.Path, "messages"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A claim that asks for nothing special gets a directory of its pod's node. What one pod writes the next one reads, also when
// the cluster was restarted in between, and it goes when the claim does.
func TestVolume_DefaultClass(t *testing.T) {
	k := up(t, newCluster(t, "volume"))
	const ns = "default"
	classes := k.kubectl(t, "get", "storageclass")
	contains(t, classes, "local-path (default)", "minik8s.io/local-path", "Delete", "WaitForFirstConsumer")

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")}
	if _, err := k.client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the claim waits", func(ctx context.Context) error {
		r, err := k.run(ctx, "describe", "pvc", "data")
		if err == nil && !strings.Contains(r.Stdout, "waiting for first consumer to be created before binding") {
			err = errors.New(r.Stdout)
		}
		return err
	})

	byClaim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	k.runStore(t, ns, storePod("writer", byClaim))
	bound, err := k.client.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil || bound.Status.Phase != corev1.ClaimBound {
		t.Fatalf("claim is %v, %v", bound.Status, err)
	}
	volume, err := k.client.CoreV1().PersistentVolumes().Get(t.Context(), bound.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const text = "kept for the next pod"
	eventually(t, 20*time.Second, "a message is stored", func(ctx context.Context) error {
		p, err := k.client.CoreV1().Pods(ns).Get(ctx, "writer", metav1.GetOptions{})
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
	contains(t, messages(t, volume), text)

	k.kubectl(t, "delete", "pod", "writer")
	if err := k.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	k = up(t, k.Cluster)
	k.runStore(t, ns, storePod("reader", byClaim))
	p, err := k.client.CoreV1().Pods(ns).Get(t.Context(), "reader", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	eventually(t, 20*time.Second, "the store answers", func(ctx context.Context) (err error) {
		got, err = fetch(ctx, http.MethodGet, "http://"+p.Status.PodIP+":8080/v1/messages", "")
		return err
	})
	contains(t, got, text)

	// The claim stays until the pod is gone, and then the data go with it.
	k.kubectl(t, "delete", "pvc", "data", "--wait=false")
	contains(t, k.kubectl(t, "get", "pvc", "data"), "Terminating")
	k.kubectl(t, "delete", "pod", "reader")
	eventually(t, 30*time.Second, "claim, volume and directory gone", func(ctx context.Context) error {
		list, err := k.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("volume %s is %s: %s", list.Items[0].Name, list.Items[0].Status.Phase, list.Items[0].Status.Message)
		}
		if _, err := os.Stat(volume.Spec.Local.Path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errors.New("the directory is not gone"), err)
		}
		return nil
	})
}

// The volume of a pod's own, and one that somebody made by hand, are mounted too; kinds that the node cannot mount say so.
func TestVolume_Kinds(t *testing.T) {
	k := shared(t)
	ns := k.namespace(t, "volume-kinds")
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	k.runStore(t, ns, storePod("own", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}}}))
	k.kubectl(t, "-n", ns, "delete", "pod", "own")
	eventually(t, 30*time.Second, "the pod's own claim gone", func(ctx context.Context) error {
		list, err := k.client.CoreV1().PersistentVolumeClaims(ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("claim %s is there", list.Items[0].Name)
		}
		return err
	})

	manual := func(name string, source corev1.PersistentVolumeSource) corev1.VolumeSource {
		t.Helper()
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name}}
		v.Spec = corev1.PersistentVolumeSpec{Capacity: size, AccessModes: once, PersistentVolumeSource: source}
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ns, Name: name}
		if _, err := k.client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := k.client.CoreV1().PersistentVolumes().Delete(context.Background(), v.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec = corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: v.Name,
		}
		if _, err := k.client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	k.runStore(t, ns, storePod("byhand", manual("host", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}})))
	eventually(t, 20*time.Second, "the store's file in the directory", func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "messages"))
		return err
	})
	pod := storePod("unmounted", manual("iscsi", corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
		TargetPortal: "192.0.2.1", IQN: "iqn.2001-04.com.example:storage",
	}}))
	if _, err := k.client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the event FailedMount", func(ctx context.Context) error {
		r, err := k.run(ctx, "-n", ns, "describe", "pod", "unmounted")
		if err == nil && !strings.Contains(r.Stdout, "is of kind iscsi, which is not supported by this kubelet") {
			err = errors.New(r.Stdout)
		}
		return err
	})
}

// Every node provides the volumes of its own pods, also one on another machine.
func TestVolume_OnAnotherNode(t *testing.T) {
	c := newCluster(t, "volumes")
	m := newSecondMachine(t)
	k := up(t, c)
	joined := filepath.Join(t.TempDir(), "two.kubeconfig")
	r := must(t, c, "kubeconfig", "--node", "two", "--node-ip", m.there)
	if err := os.WriteFile(joined, []byte(r.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	node := cluster.Cluster{Binary: c.Binary, Name: c.Name + "-two"}
	t.Cleanup(func() {
		r, err := cluster.Run(m.on(context.Background(), node.Command(context.Background(), "down", "--purge")))
		if err != nil || r.Code != 0 {
			t.Errorf("removing the node: %v %s", err, r)
		}
	})
	dir := filepath.Join(suite.dir, "volumes-two")
	background(t, m.on(t.Context(), node.Command(t.Context(), "agent", "--kubeconfig", joined, "--data-dir", dir)))

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	if _, err := k.client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := storePod("there", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "two"}
	k.runStore(t, "default", pod)
	found, err := filepath.Glob(filepath.Join(dir, "volumes", "pvc-*", "messages"))
	if err != nil || len(found) != 1 {
		t.Errorf("volumes of the node are %v (%v)", found, err)
	}
	k.kubectl(t, "delete", "pod/there", "pvc/data")
	eventually(t, 30*time.Second, "the volume of the other node gone", func(context.Context) error {
		left, err := os.ReadDir(filepath.Join(dir, "volumes"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s is there", left[0].Name())
		}
		return err
	})
}
