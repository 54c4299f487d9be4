// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// A process that is killed again and again while pods come and go does each thing once: no pod has a container twice or none, no
// container is restarted, each pod has its own network, and when all are deleted nothing is left of them.
func TestCrash(t *testing.T) {
	c := newCluster(t, "crash")
	pods := int(number(t, "MINIK8S_FAULTS_PODS", 40))
	seed := number(t, "MINIK8S_FAULTS_SEED", rand.Uint64())
	t.Logf("%d pods, MINIK8S_FAULTS_SEED=%d", pods, seed)
	w := newWorld(t, c)
	w.start(t)
	w.first(t, rand.New(rand.NewPCG(seed, 1)))
	before := w.traces(t)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(pods)*3*time.Second)
	defer cancel()
	churned := make(chan struct{})
	var kept []*corev1.Pod
	go func() {
		defer close(churned)
		kept = w.run(ctx, rand.New(rand.NewPCG(seed, 2)), pods)
	}()
	kills := w.kills(ctx, t, rand.New(rand.NewPCG(seed, 3)), pods/2, churned)
	if ctx.Err() != nil {
		left, err := w.containers()
		t.Fatalf("after %d kills the pods have not come and gone in time; containers: %v, %v", kills, left, err)
	}
	t.Logf("%d kills, %d of %d pods kept", kills, len(kept), pods)
	w.settled(t, kept)
	w.remove(t, kept)
	w.leaves(t, before)
}

// number is a setting of the environment.
func number(t *testing.T, name string, preset uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return preset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// world is a cluster whose process is a child of the test, to be killed at any instant.
type world struct {
	cluster.Cluster
	args    []string // more arguments of the process
	client  kubernetes.Interface
	process *exec.Cmd
	log     string // a file

	mu   sync.Mutex                      // guards seen
	seen map[types.UID]map[string]string // the first id of each container that was seen to run
}

func newWorld(t *testing.T, c cluster.Cluster) *world {
	t.Helper()
	w := &world{Cluster: c, log: filepath.Join(t.TempDir(), "log"), seen: map[types.UID]map[string]string{}}
	t.Cleanup(func() {
		w.kill() // before the cluster is purged
		if data, err := os.ReadFile(w.log); t.Failed() && err == nil {
			t.Logf("the log ends with:\n%s", tail(string(data), 60))
		}
	})
	return w
}

// exec starts the process and does not wait for anything.
func (w *world) exec(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	w.process = w.Command(context.Background(), "server", append([]string{"--data-dir", w.DataDir}, w.args...)...)
	w.process.Stdout, w.process.Stderr = log, log
	if err := w.process.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the process as a failing machine would.
func (w *world) kill() {
	if w.process != nil {
		_ = w.process.Process.Kill() // it may have ended
		_ = w.process.Wait()         // by the signal
		w.process = nil
	}
}

// start starts the process and waits until pods can be made.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.exec(t)
	eventually(t, time.Minute, "the kubeconfig", func(context.Context) error {
		var err error
		if w.client == nil {
			w.client, err = patientClient(filepath.Join(w.DataDir, "kubeconfig"))
		}
		return err
	})
	w.serves(t)
}

// patientClient returns a client that waits for no answer longer than five seconds.
func patientClient(kubeconfig string) (kubernetes.Interface, error) {
	config, _, err := cluster.Client(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	return kubernetes.NewForConfig(config)
}

func (w *world) serves(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the default ServiceAccount", func(ctx context.Context) error {
		_, err := w.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// kills kills the process at random instants, of its start too, and starts it again, so many times at most, and returns when done
// is closed. It leaves one that runs.
func (w *world) kills(ctx context.Context, t *testing.T, r *rand.Rand, most int, done <-chan struct{}) (n int) {
	t.Helper()
	for ; n < most; n++ {
		if r.IntN(4) > 0 { // else it is killed while it starts, perhaps
			w.serves(t)
		}
		instant := time.NewTimer(time.Duration(r.IntN(3000)) * time.Millisecond)
		select {
		case <-ctx.Done():
			return n
		case <-done:
			w.serves(t)
			return n
		case <-instant.C:
		}
		w.kill()
		w.exec(t)
	}
	w.serves(t)
	select {
	case <-ctx.Done():
	case <-done:
	}
	return n
}

// run lets pods come and go, by four at a time, and returns those that are to stay.
func (w *world) run(ctx context.Context, r *rand.Rand, pods int) []*corev1.Pod {
	plans := make(chan plan, pods)
	for n := range pods {
		plans <- draw(r, n)
	}
	close(plans)
	var mu sync.Mutex // guards kept
	var kept []*corev1.Pod
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for p := range plans {
				if w.live(ctx, p); p.keep {
					mu.Lock()
					kept = append(kept, p.pod)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return kept
}

// first has a pod run and go, for what only the first one of a cluster makes.
func (w *world) first(t *testing.T, r *rand.Rand) {
	t.Helper()
	w.live(t.Context(), plan{pod: churnPod(r, 0), awaitRunning: true, awaitGone: true})
	w.leaves(t, nil)
}

// plan is what becomes of a pod.
type plan struct {
	pod *corev1.Pod
	// awaitRunning and awaitGone: nothing else is done before it runs, and before it is gone.
	awaitRunning, awaitGone bool
	keep                    bool
	grace                   *int64
}

// draw draws a plan.
func draw(r *rand.Rand, n int) plan {
	p := plan{pod: churnPod(r, n), awaitRunning: r.IntN(3) > 0, awaitGone: r.IntN(2) > 0, keep: r.IntN(4) == 0}
	if r.IntN(2) > 0 {
		p.grace = new(int64(r.IntN(3))) // 0 takes the pod out of the API at once
	}
	return p
}

// churnPod is a pod with some of what leaves traces on a node.
func churnPod(r *rand.Rand, n int) *corev1.Pod {
	web := corev1.Container{Name: "web", Image: frontendImage, Command: []string{"/guestbook", "static", "/"},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "memory", MountPath: "/memory"}, {Name: "memory", MountPath: "/below", SubPath: "a/b"}}}
	if r.IntN(3) == 0 {
		web.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: int32(23000 + n)}}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n)}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(2)),
		Containers:                    []corev1.Container{web},
		Volumes: []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}},
	}}
	if r.IntN(3) == 0 {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: frontendImage,
			Command: []string{"/guestbook", "lookup", "localhost"}}}
	}
	if r.IntN(3) == 0 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "deaf", Image: frontendImage,
			Command: []string{"/guestbook", "toolbox"}, Stdin: true})
	}
	return p
}

// live carries a plan out, whatever becomes of the server meanwhile.
func (w *world) live(ctx context.Context, p plan) {
	api := w.client.CoreV1().Pods("default")
	w.insist(ctx, func() bool {
		_, err := api.Create(ctx, p.pod, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	if p.awaitRunning || p.keep {
		w.insist(ctx, func() bool {
			now, err := api.Get(ctx, p.pod.Name, metav1.GetOptions{})
			if err == nil {
				w.note(now)
			}
			return err == nil && now.Status.Phase == corev1.PodRunning
		})
	}
	if p.keep {
		return
	}
	w.insist(ctx, func() bool {
		err := api.Delete(ctx, p.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: p.grace})
		return err == nil || apierrors.IsNotFound(err)
	})
	if p.awaitGone {
		w.insist(ctx, func() bool {
			_, err := api.Get(ctx, p.pod.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}

// insist repeats a step until it is done.
func (w *world) insist(ctx context.Context, step func() bool) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !step() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// note remembers which containers a pod was first seen to have.
func (w *world) note(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running == nil {
			continue
		}
		if w.seen[p.UID] == nil {
			w.seen[p.UID] = map[string]string{}
		}
		if w.seen[p.UID][s.Name] == "" {
			w.seen[p.UID][s.Name] = s.ContainerID
		}
	}
}

// settled waits until the pods that were kept are all there is, and checks that each is as if nothing had happened.
func (w *world) settled(t *testing.T, kept []*corev1.Pod) {
	t.Helper()
	names := map[string]bool{}
	for _, p := range kept {
		names[p.Name] = true
	}
	eventually(t, time.Minute, "the kept pods and no others", func(ctx context.Context) error {
		list, err := w.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != len(kept) {
			return fmt.Errorf("%d pods, want %d", len(list.Items), len(kept))
		}
		for i := range list.Items {
			if !isReady(&list.Items[i]) || !names[list.Items[i].Name] {
				return fmt.Errorf("%s is %s: %v", list.Items[i].Name, list.Items[i].Status.Phase, list.Items[i].Status.Conditions)
			}
		}
		return w.once(list.Items)
	})
	list, err := w.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	for i := range list.Items {
		p := &list.Items[i]
		w.unharmed(t, p)
		if other := taken[p.Status.PodIP]; other != "" {
			t.Errorf("%s and %s both have the address %s", other, p.Name, p.Status.PodIP)
		}
		taken[p.Status.PodIP] = p.Name
	}
}

// unharmed checks that no container of a pod was restarted or replaced, and that it answers at its address and host port.
func (w *world) unharmed(t *testing.T, p *corev1.Pod) {
	t.Helper()
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.RestartCount != 0 || s.LastTerminationState.Terminated != nil {
			t.Errorf("container %s of %s was restarted %d times, the last end was %+v",
				s.Name, p.Name, s.RestartCount, s.LastTerminationState.Terminated)
		}
		if first := w.seen[p.UID][s.Name]; first != "" && first != s.ContainerID {
			t.Errorf("container %s of %s is %s, was %s", s.Name, p.Name, s.ContainerID, first)
		}
	}
	ports := []string{fmt.Sprintf("http://%s:8080", p.Status.PodIP)}
	if host := p.Spec.Containers[0].Ports; len(host) > 0 {
		ports = append(ports, fmt.Sprintf("http://127.0.0.1:%d", host[0].HostPort))
	}
	for _, url := range ports {
		if _, err := fetch(t.Context(), http.MethodHead, url, ""); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// once compares the engine's containers with pods: each has one sandbox and each of its containers once, and nobody else has any.
func (w *world) once(pods []corev1.Pod) error {
	want := map[string]int{}
	for i := range pods {
		p := &pods[i]
		want[string(p.UID)+" POD running"]++
		for _, c := range p.Spec.InitContainers {
			want[string(p.UID)+" "+c.Name+" exited"]++
		}
		for _, c := range p.Spec.Containers {
			want[string(p.UID)+" "+c.Name+" running"]++
		}
	}
	have, err := w.containers()
	if err == nil && !maps.Equal(want, have) {
		err = fmt.Errorf("the engine has %v, want %v", have, want)
	}
	return err
}

// containers are the cluster's, as "UID NAME STATE", counted.
func (w *world) containers() (map[string]int, error) {
	const format = `{{.Label "io.kubernetes.pod.uid"}} {{or (.Label "io.kubernetes.container.name") "POD"}} {{.State}}`
	out, err := exec.Command("docker", "ps", "--all", "--filter", "label=minik8s.io/cluster="+w.Name, "--format", format).Output()
	if err != nil {
		return nil, fmt.Errorf("docker ps: %w", err)
	}
	found := map[string]int{}
	for line := range strings.Lines(string(out)) {
		found[strings.TrimSpace(line)]++
	}
	return found, nil
}

// remove deletes pods and waits until they are gone.
func (w *world) remove(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	api := w.client.CoreV1().Pods("default")
	for _, p := range pods {
		if err := api.Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, "all pods gone", func(ctx context.Context) error {
		list, err := api.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods", len(list.Items))
		}
		return err
	})
}

// leaves waits until nothing of any pod is left: no container, nothing that the machine has not had before, if that is known.
func (w *world) leaves(t *testing.T, before snapshot) {
	t.Helper()
	eventually(t, 45*time.Second, "nothing of pods", func(context.Context) error { // leftovers are looked for every 30 s
		have, err := w.containers()
		if err != nil || len(have) > 0 {
			return errors.Join(err, fmt.Errorf("containers %v", have))
		}
		if before == nil {
			return nil
		}
		if diff := difference(before, w.traces(t)); len(diff) > 0 {
			return fmt.Errorf("- before, + after:\n%s", strings.Join(diff, "\n"))
		}
		return nil
	})
}

// traces are what pods of the cluster leave on the machine: what only its name, folders and addresses can tell of, for others use
// the machine too.
func (w *world) traces(t *testing.T) snapshot {
	t.Helper()
	all, err := takeSnapshot(w.Name)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("%v, %v", nodes, err)
	}
	pods := nodes.Items[0].Spec.PodCIDR
	links := fmt.Sprintf("mk%x", sha256.Sum256([]byte(w.Name)))[:7] // how their names begin
	marks := []string{w.Name, w.DataDir, links, pods[:strings.LastIndexByte(pods, '.')+1]}
	own := snapshot{}
	for what, lines := range all {
		own[what] = slices.DeleteFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(line, mark) })
		})
	}
	owners, err := os.ReadFile(filepath.Join(w.DataDir, "network", "ipam.json"))
	if err != nil {
		t.Fatal(err)
	}
	list, _, _ := strings.Cut(string(owners), `"last"`)
	own["addresses of pods"] = strings.Fields(list)
	for _, dir := range []string{"pods", "checkpoints"} {
		entries, err := os.ReadDir(filepath.Join(w.DataDir, "kubelet", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			own[dir] = append(own[dir], e.Name())
		}
	}
	return own
}
