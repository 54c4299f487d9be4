// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// invitation is what `token create -o json` prints, as far as a machine needs it.
type invitation struct {
	Token, Server, CACertHash, Command string
}

func (k *kube) invite(t *testing.T, args ...string) invitation {
	t.Helper()
	var i invitation
	r := must(t, k.Cluster, "token", append([]string{"create", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(r.Stdout), &i); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	return i
}

// nodeReady checks whether a node is, and says what its agent does if not.
func (k *kube) nodeReady(name string, agent *output) func(context.Context) error {
	is := k.nodeCondition(name, corev1.ConditionTrue, "")
	return func(ctx context.Context) error {
		if err := is(ctx); err != nil {
			return fmt.Errorf("%w\n%s", err, tail(agent.String(), 10))
		}
		return nil
	}
}

// A machine with an engine of its own joins by a token, gets images from the first, runs pods, and is out for good when its Node is deleted; wrong hashes and ended tokens let nobody in,
// and leave nothing on the machine.
func TestJoin(t *testing.T) {
	c := newCluster(t, "join")
	m := newSecondMachine(t)
	engine := emptyDaemon(t)
	k := m.first(t, c)
	node := cluster.Cluster{Binary: k.Binary, Name: k.Name + "-two"}
	data := filepath.Join(suite.dir, "join-two")
	t.Cleanup(func() {
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("the node's data are still there: %v", err)
		}
	})
	m.purged(t, node) // which is before
	agent := func(args ...string) *exec.Cmd {
		return m.on(t.Context(), node.Command(t.Context(), "agent", append([]string{"--data-dir", data, "--docker-host", engine.host()}, args...)...))
	}
	joining := func(i invitation, hash string) []string {
		return []string{"--join", i.Server, "--token", i.Token, "--ca-cert-hash", hash, "--node-name", "two", "--node-ip", m.there, "--timeout", "30s"}
	}
	refused := func(name, want string, args ...string) {
		t.Helper()
		r, err := cluster.Run(agent(args...))
		if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%s: %v, %s, want %q", name, err, r, want)
		}
	}

	i := k.invite(t, "--description", "the second")
	listed := must(t, k.Cluster, "token", "list").Stdout
	contains(t, listed, i.Token, "authentication,signing", "the second")
	if !regexp.MustCompile(`\b(1d|23h)\b`).MatchString(listed) { // a token lasts for a day at least; how much of it is left when this is asked differs
		t.Errorf("no TTL of a day in:\n%s", listed)
	}
	contains(t, i.Command, "minik8s agent --join "+i.Server, i.CACertHash)
	wrong := "sha256:" + strings.Repeat("0", 64)
	refused("wrong hash", "none of those given", joining(i, wrong)...)
	refused("no hash", "--ca-cert-hash", "--join", i.Server, "--token", i.Token)
	short := k.invite(t, "--ttl", "5s") // in which it is signed, however busy the machine is
	eventually(t, 60*time.Second, "the end of a token", func(context.Context) error {
		if list := must(t, k.Cluster, "token", "list").Stdout; strings.Contains(list, short.Token) {
			return fmt.Errorf("it is listed: %s", list)
		}
		return nil
	})
	refused("ended token", "does not know token", joining(short, short.CACertHash)...)
	refused("before it has joined", "has not joined")
	takeover := append(joining(i, i.CACertHash), "--node-name", "one")
	refused("a node that is there", "of the control plane", takeover...)
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("refusals left something: %v", err)
	}

	joined := agent(joining(i, i.CACertHash)...)
	log := background(t, joined)
	eventually(t, 60*time.Second, "the joined node Ready", k.nodeReady("two", log))
	k.kubectl(t, "create", "deployment", "web", "--image="+frontendImage, "--replicas=4", "--", "/guestbook", "static", "/")
	k.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	pods, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web", FieldSelector: "spec.nodeName=two"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("no pods on the node: %v", err)
	}
	// No registry has the image: it is the first machine's.
	id := []string{"image", "inspect", "--format", "{{.Id}}", frontendImage}
	here, err := exec.Command("docker", id...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if there, err := exec.Command("docker", append([]string{"--host", engine.host()}, id...)...).Output(); err != nil || string(there) != string(here) {
		t.Errorf("on the node image %s is %s, not %s: %v", frontendImage, there, here, err)
	}
	contains(t, k.kubectl(t, "get", "events"), fmt.Sprintf("Successfully pulled image %q", frontendImage))
	eventually(t, 20*time.Second, "logs from the node", func(ctx context.Context) error {
		r, err := k.run(ctx, "logs", pods.Items[0].Name)
		if err != nil || !strings.Contains(r.Stdout+r.Stderr, "listening on") {
			return fmt.Errorf("%w %s", err, r)
		}
		return nil
	})

	// Killed and started again it needs no token.
	if err := joined.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	must(t, k.Cluster, "token", "delete", i.Token)
	eventually(t, 60*time.Second, "the end of the agent", func(ctx context.Context) error {
		r, err := cluster.Run(m.on(ctx, node.Command(ctx, "status")))
		if err == nil && r.Code == 0 {
			err = errors.New("it still runs")
		}
		return err
	})
	// A token lets nobody take over the name of a node that is there; the pods of that node go on.
	running := func() string {
		t.Helper()
		out, err := exec.Command("docker", "--host", engine.host(), "ps", "--quiet", "--no-trunc").Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("containers on the node: %q, %v", out, err)
		}
		return string(out)
	}
	before, other := running(), k.invite(t)
	refused("a name that is taken", "has a node", joining(other, other.CACertHash)...)
	if after := running(); after != before {
		t.Errorf("a refused machine has\n%swhere it had\n%s", after, before)
	}
	again := background(t, agent())
	eventually(t, 30*time.Second, "the agent runs the node again", func(context.Context) error {
		if !strings.Contains(again.String(), "Running a node") {
			return fmt.Errorf("it says %s", again)
		}
		return nil
	})
	r, err := k.Run(t.Context(), "node", "remove", "two")
	if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, "default/web-") {
		t.Errorf("removing a node with pods: %v %s", err, r)
	}
	must(t, k.Cluster, "node", "remove", "two", "--force")
	eventually(t, 60*time.Second, "the refusal of a removed node", func(ctx context.Context) error {
		r, err := cluster.Run(m.on(ctx, node.Command(ctx, "down")))
		if err != nil || r.Code != 0 {
			return fmt.Errorf("%w %s", err, r)
		}
		return nil
	})
	refused("a removed node", "was removed from the cluster")
	if _, err := k.client.CoreV1().Nodes().Get(t.Context(), "two", metav1.GetOptions{}); err == nil {
		t.Error("the node is there again")
	}
}
