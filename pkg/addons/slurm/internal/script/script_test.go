// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		spec batchv1alpha1.SlurmJobSpec
		want string
	}{
		{"least", batchv1alpha1.SlurmJobSpec{Run: []string{"hostname"}},
			"#!/bin/bash\n#SBATCH --job-name=j\n#SBATCH --output=.minik8s-output\n#SBATCH --error=.minik8s-error\n#SBATCH --no-requeue\nset -e\nhostname\n"},
		{"all", batchv1alpha1.SlurmJobSpec{
			Partition: "dgx", Account: "a", Nodes: 2, Tasks: 4, TasksPerNode: 2, CPUsPerTask: 6, GPUs: 1,
			Memory: new(resource.MustParse("1G")), TimeLimit: &metav1.Duration{Duration: 90*time.Minute + time.Second}, Run: []string{"module load cuda", "./add"},
		},
			"#!/bin/bash\n#SBATCH --job-name=j\n#SBATCH --output=.minik8s-output\n#SBATCH --error=.minik8s-error\n#SBATCH --no-requeue\n" +
				"#SBATCH --partition=dgx\n#SBATCH --account=a\n#SBATCH --nodes=2\n#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=2\n" +
				"#SBATCH --cpus-per-task=6\n#SBATCH --mem=954M\n#SBATCH --gres=gpu:1\n#SBATCH --time=91\nset -e\nmodule load cuda\n./add\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Batch("j", &test.spec)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSacct(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       Job
		known, bad bool
	}{
		{name: "nothing yet", text: "\n"},
		{name: "waits", text: "7|PENDING|Resources|0:0|acct|0|None assigned\n", known: true,
			want: Job{ID: "7", State: "PENDING", Reason: "Resources", ExitCode: "0:0", Account: "acct", AllocatedCPUs: "0"}},
		{name: "ended", text: "7|COMPLETED|None|0:0|acct|2|n1", known: true,
			want: Job{ID: "7", State: "COMPLETED", ExitCode: "0:0", Account: "acct", AllocatedCPUs: "2", Nodes: "n1"}},
		{name: "by whom", text: "7|CANCELLED by 1000|None|0:15||1|n1", known: true,
			want: Job{ID: "7", State: "CANCELLED", ExitCode: "0:15", AllocatedCPUs: "1", Nodes: "n1"}},
		{name: "other fields", text: "7|COMPLETED", bad: true},
		{name: "no state", text: "7||||||", bad: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, known, err := Sacct(test.text)
			if known != test.known || (err != nil) != test.bad {
				t.Errorf("known %t, error %v", known, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScontrol(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       Job
		known, bad bool
	}{
		{name: "nothing"},
		{name: "as printed", known: true,
			text: "JobId=3 JobName=minik8s-u UserId=user(1000) GroupId=user(1000) MCS_label=N/A Priority=1 Nice=0 Account=(null) QOS=(null) JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=0 ExitCode=3:0 NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=2 NumTasks=1 Command=/home/user/x.sh",
			want: Job{ID: "3", State: "FAILED", Reason: "NonZeroExitCode", ExitCode: "3:0", AllocatedCPUs: "2", Nodes: "n1"}},
		{name: "something else", text: "slurm_load_jobs error", bad: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, known, err := Scontrol(test.text)
			if known != test.known || (err != nil) != test.bad {
				t.Errorf("known %t, error %v", known, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]bool{
		"": false, "PENDING": false, "RUNNING": false, "COMPLETING": false, "SUSPENDED": false, "REQUEUED": false,
		"COMPLETED": true, "FAILED": true, "CANCELLED": true, "TIMEOUT": true, "DEADLINE": true, "NODE_FAIL": true, "BOOT_FAIL": true,
		"OUT_OF_MEMORY": true, "PREEMPTED": true, "REVOKED": true,
	} {
		if got := Ended(state); got != want {
			t.Errorf("%q: %t", state, got)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	if got := Quote(`it's $HOME`); got != `'it'\''s $HOME'` {
		t.Error(got)
	}
}
