// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests what becomes of clusters that several people start, stop, purge and kill at the same time, with
// the real program as a user without rights. Touch it when a verb comes that changes a cluster.
package lifecycle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	workers = 4
	// nobody is the user who runs the program if the test is run by root: what the test makes is nowhere near what others
	// have on this machine.
	nobody = 65534
	// patience is how long a command may take on a machine that does much else. None should come near it.
	patience = 2 * time.Minute
)

var names = [...]string{"first", "second"}

// deed is one thing that a worker is to do.
type deed struct {
	verb  verb
	name  string
	after time.Duration // 0, or when to kill the command
}

// plan draws what the workers of a round do.
func plan(r *rand.Rand) [workers][]deed {
	var all [workers][]deed
	for w := range all {
		for range 1 + r.IntN(2) {
			d := deed{verb: []verb{doUp, doUp, doUp, doDown, doDown, doPurge, doKill}[r.IntN(7)], name: names[r.IntN(len(names))]}
			if d.verb != doKill && r.IntN(4) == 0 {
				d.after = time.Duration(1+r.IntN(1500)) * time.Millisecond
			}
			all[w] = append(all[w], d)
		}
	}
	return all
}

// round lets the workers do a plan, and returns what happened to each cluster.
func (a *arena) round(ctx context.Context, deeds [workers][]deed) (map[string][]event, error) {
	var mu sync.Mutex // guards events and failures
	events := map[string][]event{}
	var failures error
	var all sync.WaitGroup
	for _, own := range deeds {
		all.Go(func() {
			for _, d := range own {
				e, err := a.do(ctx, d)
				mu.Lock()
				events[d.name] = append(events[d.name], e)
				failures = errors.Join(failures, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return events, failures
}

func (a *arena) do(ctx context.Context, d deed) (event, error) {
	switch {
	case d.verb == doKill:
		return a.kill(ctx, d.name)
	case d.after > 0:
		return a.cutOff(ctx, d.verb, d.name, d.after)
	}
	return a.run(ctx, d.verb, d.name)
}

// rested waits until no process is on its way and returns what there is, with the processes. One whose parent was killed goes on
// with the start, and is no cluster's before it holds the lock; one that was asked to end by a command that was killed then may end
// at any time, and is the cluster's for a moment longer than it has a name.
func (a *arena) rested(ctx context.Context) (all map[string]listed, servers map[string][]int, err error) {
	servers = map[string][]int{}
	return all, servers, await(ctx, "clusters at rest", func() error {
		if all, err = a.list(ctx); err != nil {
			return err
		}
		for _, name := range names {
			l, there := all[name]
			if observed(l, there) == nil {
				return fmt.Errorf("cluster %s is %s", name, l.State)
			}
			processes, err := a.servers(name)
			if err != nil {
				return err
			}
			servers[name] = processes
			if slices.ContainsFunc(processes, func(pid int) bool { return pid != l.Pid }) || len(processes) == 0 && slices.Contains(observed(l, there), up) {
				return fmt.Errorf("cluster %s has processes %v, and is said to have %d", name, processes, l.Pid)
			}
		}
		return nil
	})
}

// ca tells one life of a cluster from the next: it is made once, with the data.
func (a *arena) ca(name string) string {
	data, err := os.ReadFile(filepath.Join(a.dir(name), "pki", "ca.crt"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// dir is where a cluster keeps its data.
func (a *arena) dir(name string) string {
	if name == names[1] {
		return a.dataDir(name)
	}
	return filepath.Join(a.data(), name)
}

// keeps checks that a cluster that is up has what was stored in an earlier round of its life, and in a new life stores it.
func (a *arena) keeps(ctx context.Context, name string, known bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(a.dir(name), "kubeconfig"))
	if err != nil {
		return err
	}
	config.Timeout = patience
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if known {
		_, err = maps.Get(ctx, "life", metav1.GetOptions{})
	} else {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "life"}}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("what cluster %s keeps (known: %t): %w", name, known, err)
	}
	return nil
}

// left are the files of a cluster.
func (a *arena) left(name string) []string {
	patterns := []string{a.entry(name)[:len(a.entry(name))-len("json")] + "*", filepath.Join(a.data(), "clusters", "."+name+"*"), filepath.Join(a.data(), name)}
	if name == names[1] {
		patterns = append(patterns, a.dataDir(name), filepath.Dir(a.dataDir(name)))
	}
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			panic(err) // the pattern is wrong
		}
		all = append(all, found...)
	}
	return all
}

// check compares what there is of a cluster with what there could be.
func (a *arena) check(name string, from []state, ca string, events []event, now listed, there bool, processes []int) ([]state, error) {
	var problems []error
	is, could := observed(now, there), serial(from, events)
	if !slices.ContainsFunc(is, func(s state) bool { return slices.Contains(could, s) }) {
		problems = append(problems, fmt.Errorf("it is %q, and could be %q", is, could))
	}
	want := 0
	if slices.Contains(is, up) {
		want = 1
	}
	if len(processes) != want || want == 1 && processes[0] != now.Pid {
		problems = append(problems, fmt.Errorf("it is %q with processes %v, said to be %d", is, processes, now.Pid))
	}
	if left := a.left(name); slices.Contains(is, absent) && len(left) > 1 || slices.Contains(is, absent) && len(left) == 1 && !strings.HasSuffix(left[0], ".lock") {
		problems = append(problems, fmt.Errorf("it is absent and left %v", left))
	}
	for _, e := range failed(events) {
		problems = append(problems, fmt.Errorf("%s failed: %s", e.verb, e.output))
	}
	lost := func(s state) bool { return s == absent || s == first || s == cutFirst || s == purging }
	purged := slices.ContainsFunc(events, func(e event) bool { return e.verb == doPurge }) || slices.ContainsFunc(from, lost)
	if !purged && a.ca(name) != ca {
		problems = append(problems, errors.New("its data are not those of before, and nobody has purged it"))
	}
	if len(problems) > 0 {
		history := fmt.Sprintf("cluster %s, from %q:", name, from)
		for _, e := range events {
			history += "\n  " + e.String()
		}
		return is, fmt.Errorf("%s\n%w", history, errors.Join(problems...))
	}
	return is, nil
}

func setting(t *testing.T, name string, preset uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return preset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever four people do to two clusters at the same time, killing included: each round ends as if they had come one after
// the other, and when the last has purged them nothing is left.
func TestParallelOperations(t *testing.T) {
	a := newArena(t)
	rounds := setting(t, "MINIK8S_LIFECYCLE_ROUNDS", 15)
	seed := setting(t, "MINIK8S_LIFECYCLE_SEED", rand.Uint64())
	t.Logf("%d rounds, MINIK8S_LIFECYCLE_SEED=%d", rounds, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	t.Cleanup(func() { a.sweep(t) })
	at, asked := map[string][]state{}, map[string]int{}
	cas, kept := map[string]string{}, map[string]string{} // the life of a cluster, and the last in which it stored something
	for _, name := range names {
		at[name] = []state{absent}
	}
	counts := map[string]int{}
	for i := range rounds {
		deeds := plan(r)
		events, err := a.round(t.Context(), deeds)
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		all, servers, err := a.rested(t.Context())
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		for _, name := range names {
			now, there := all[name]
			if at[name], err = a.check(name, at[name], cas[name], events[name], now, there, servers[name]); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			// A process that was asked to end, by a command that was killed then, may do so in the next round.
			if there && (cutDown(events[name]) || asked[name] == now.Pid) && slices.Contains(at[name], up) {
				asked[name] = now.Pid
				at[name] = append(at[name], down)
			}
			cas[name] = a.ca(name)
			if slices.Equal(at[name], []state{up}) { // and not about to end
				if err := a.keeps(t.Context(), name, kept[name] == cas[name]); err != nil {
					t.Fatalf("round %d: %v", i, err)
				}
				kept[name] = cas[name]
			}
			counts[string(at[name][0])]++
		}
		if one, two := all[names[0]], all[names[1]]; one.Server != "" && one.Server == two.Server {
			t.Fatalf("round %d: both clusters are at %s", i, one.Server)
		}
	}
	t.Logf("ends of rounds: %v", counts)
	a.stillWorks(t)
	a.purgeAll(t)
}

func cutDown(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool { return e.killed && e.verb != doUp })
}

// stillWorks brings both clusters up and down, whatever they are now.
func (a *arena) stillWorks(t *testing.T) {
	t.Helper()
	for _, v := range []verb{doUp, doDown, doUp} {
		for _, name := range names {
			e, err := a.run(t.Context(), v, name)
			if err != nil || e.code != 0 {
				t.Fatalf("%s of %s: %v: %s", v, name, err, e.output)
			}
		}
	}
}

// purgeAll purges both clusters, after which there is nothing.
func (a *arena) purgeAll(t *testing.T) {
	t.Helper()
	for _, name := range names {
		e, err := a.run(t.Context(), doPurge, name)
		if err != nil || e.code != 0 {
			t.Fatalf("purge of %s: %v: %s", name, err, e.output)
		}
		if processes, err := a.servers(name); err != nil || len(processes) > 0 {
			t.Errorf("processes are left: %v, %v", processes, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(a.home)) {
		t.Errorf("mounts are left: %v", err)
	}
	err = filepath.WalkDir(a.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != a.home && path != a.binary && path != filepath.Join(a.home, "data") {
			t.Errorf("%s is left", path)
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// sweep ends what a failed test has left.
func (a *arena) sweep(t *testing.T) {
	t.Helper()
	for _, name := range names {
		if processes, err := a.servers(name); err == nil && !t.Failed() && len(processes) > 0 {
			t.Errorf("processes are left: %v", processes)
		}
		if _, err := a.run(context.Background(), doPurge, name); err != nil {
			t.Error(err)
		}
		processes, err := a.servers(name)
		if err != nil {
			t.Error(err)
		}
		for _, pid := range processes {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// Several people start the same new cluster: one makes it, all get it. Then another, at once with a third of another name.
func TestParallelUp(t *testing.T) {
	a := newArena(t)
	t.Cleanup(func() { a.sweep(t) })
	for i := range 3 {
		events, err := a.round(t.Context(), [workers][]deed{{{verb: doUp, name: names[0]}}, {{verb: doUp, name: names[0]}}, {{verb: doUp, name: names[0]}}, {{verb: doUp, name: names[1]}}})
		if err != nil {
			t.Fatal(err)
		}
		started := 0
		for name, of := range events {
			for _, e := range of {
				if e.code != 0 {
					t.Errorf("round %d: up of %s: %s", i, name, e.output)
				}
				if name == names[0] && strings.Contains(e.output, "is Ready after") {
					started++
				}
			}
		}
		if started != 1 {
			t.Errorf("round %d: %d have started one cluster", i, started)
		}
		all, err := a.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 || all[names[0]].Server == all[names[1]].Server {
			t.Errorf("round %d: %+v", i, all)
		}
		a.differ(t)
		a.purgeAll(t)
	}
}

// differ checks that two clusters have been given nothing twice.
func (a *arena) differ(t *testing.T) {
	t.Helper()
	type settled struct {
		Config struct {
			Networking struct{ PodSubnet, ServiceSubnet string }
			Kubelet    struct{ Port int }
			APIPort    int
		}
	}
	seen := map[string]bool{}
	for _, name := range names {
		data, err := os.ReadFile(a.entry(name))
		if err != nil {
			t.Fatal(err)
		}
		var s settled
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{s.Config.Networking.PodSubnet, s.Config.Networking.ServiceSubnet, strconv.Itoa(s.Config.Kubelet.Port), strconv.Itoa(s.Config.APIPort)} {
			if seen[v] || v == "" || v == "0" {
				t.Errorf("cluster %s has %q", name, v)
			}
			seen[v] = true
		}
	}
}
