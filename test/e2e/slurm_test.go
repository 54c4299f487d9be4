//go:build slurm

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSlurm runs the course's script and docs/slurm.md with the Slurm cluster of examples/slurm, then a job that is cancelled while it
// runs, one that fails while minik8s is killed, and one whose volume is copied while minik8s is killed.
func TestSlurm(t *testing.T) {
	k := up(t, newCluster(t, "slurm"))
	k.runCourse(t, "08-gpu", 3, "pods that add and multiply")
	k.runPage(t, filepath.Join(suite.root, "docs", "slurm.md"))

	if r, err := k.Run(t.Context(), "enable", "slurm"); err != nil || r.Code != 0 {
		t.Fatalf("%v, %s", err, r)
	}
	k.kubectl(t, "apply", "--dry-run=server", "-f", filepath.Join(suite.root, "examples", "slurm", "cuda.yaml"))
	apply := func(name, run string, more ...string) {
		manifest := `{apiVersion: batch.minik8s.io/v1alpha1, kind: SlurmJob, metadata: {name: ` + name + `}, spec: {run: ["` + run + `"], pollSeconds: 1,
			login: {host: slurm.default.svc, user: user, secretName: slurm-login}` + strings.Join(more, "") + `}}`
		file := filepath.Join(t.TempDir(), "job.yaml")
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		k.kubectl(t, "apply", "-f", file)
	}
	state := func(name, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := k.run(ctx, "get", "slurmjob", name, "-o", "jsonpath={.status.state} {.status.exitCode}")
			if err != nil || !strings.Contains(r.Stdout, want) {
				return errors.Join(err, errors.New(r.String()))
			}
			return nil
		}
	}
	apply("long", "mkdir -p a/b; chmod 500 a; sleep 1000") // a directory from which its owner removes nothing
	eventually(t, time.Minute, "a job that runs", state("long", "RUNNING"))
	k.kubectl(t, "delete", "slurmjob", "long", "--timeout=30s")
	eventually(t, time.Minute, "a queue without it", func(ctx context.Context) error {
		r, err := k.run(ctx, "exec", "slurm", "--", "sh", "-c", "squeue --noheader; ls -A /home/user/.minik8s 2>/dev/null; true")
		if err != nil || strings.TrimSpace(r.Stdout) != "" {
			return errors.Join(err, errors.New(r.String()))
		}
		return nil
	})

	apply("broken", "sleep 5; exit 7")
	eventually(t, time.Minute, "a job that runs", state("broken", "RUNNING"))
	kill(t, k)
	k = up(t, k.Cluster)
	eventually(t, time.Minute, "the job's failure", state("broken", "FAILED 7:0"))

	k.kubectl(t, "apply", "-f", filepath.Join(suite.root, "examples", "slurm", "volume.yaml"))
	k.kubectl(t, "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=1m", "pod/writer")
	k.kubectl(t, "delete", "pod", "writer", "--timeout=30s")
	k.kubectl(t, "run", "writer", "--restart=Never", "--image=minik8s.io/slurm:22.05", "--overrides", `{"spec": {
		"containers": [{"name": "writer", "image": "minik8s.io/slurm:22.05", "command": ["sh", "-c", "mkdir /programs/large; head -c 500M /dev/zero >/programs/large/file"],
			"volumeMounts": [{"name": "programs", "mountPath": "/programs"}]}],
		"volumes": [{"name": "programs", "persistentVolumeClaim": {"claimName": "programs"}}]}}`)
	k.kubectl(t, "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=1m", "pod/writer")
	apply("large", "stat -c %s file; ls -A", `, source: {volume: {claimName: programs, path: large}}, pod: {image: "minik8s.io/slurm:22.05"}`)
	eventually(t, time.Minute, "a part of the volume", func(ctx context.Context) error {
		r, err := k.run(ctx, "exec", "slurm", "--", "sh", "-c", "ls -d /home/user/.minik8s/*.part-*/file")
		if err != nil || r.Code != 0 {
			return errors.Join(err, errors.New(r.String()))
		}
		return nil
	})
	kill(t, k)
	k = up(t, k.Cluster)
	eventually(t, 2*time.Minute, "the job's end", state("large", "COMPLETED 0:0"))
	eventually(t, time.Minute, "its log", func(ctx context.Context) error {
		r, err := k.run(ctx, "logs", "large-slurm")
		if err != nil || !strings.HasPrefix(r.Stdout, "524288000\n") || !strings.Contains(r.Stdout, "file") {
			return errors.Join(err, errors.New(r.String()))
		}
		return nil
	})
	if out := k.kubectl(t, "get", "pods", "--ignore-not-found", "large-slurm-source"); out != "" {
		t.Errorf("the pod that mounted the volume is still there: %s", out)
	}
}
