// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package script is what is said to Slurm and what it answers, as text: the batch script of a job, and its state as sacct, squeue
// and scontrol print it (https://slurm.schedmd.com/sbatch.html, sacct.html, scontrol.html). Nothing here talks to anybody.
// Touch it when another field of a job matters.
package script

import (
	"fmt"
	"strings"
	"time"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
)

// Files of a job in its directory.
const (
	Script = ".minik8s-job.sh"
	Output = ".minik8s-output"
	Error  = ".minik8s-error"
)

// Quote makes one word of a shell of any text.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Batch is the script of a job. name is what Slurm calls the job; nobody else has it.
func Batch(name string, s *batchv1alpha1.SlurmJobSpec) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	option := func(format string, args ...any) { fmt.Fprintf(&b, "#SBATCH --"+format+"\n", args...) }
	option("job-name=%s", name)
	option("output=%s", Output)
	option("error=%s", Error)
	option("no-requeue") // it would run a second time
	for _, o := range []struct{ name, value string }{{"partition", s.Partition}, {"account", s.Account}} {
		if o.value != "" {
			option("%s=%s", o.name, o.value)
		}
	}
	for _, o := range []struct {
		name  string
		value int32
	}{
		{"nodes", s.Nodes}, {"ntasks", s.Tasks}, {"ntasks-per-node", s.TasksPerNode}, {"cpus-per-task", s.CPUsPerTask},
	} {
		if o.value > 0 {
			option("%s=%d", o.name, o.value)
		}
	}
	if s.Memory != nil {
		const mib = 1 << 20
		option("mem=%dM", (s.Memory.Value()+mib-1)/mib)
	}
	if s.GPUs > 0 {
		option("gres=gpu:%d", s.GPUs)
	}
	if s.TimeLimit != nil {
		option("time=%d", (s.TimeLimit.Duration+time.Minute-1)/time.Minute)
	}
	b.WriteString("set -e\n")
	for _, command := range s.Run {
		b.WriteString(command + "\n")
	}
	return b.String()
}

// Job is what Slurm says of a job.
type Job struct {
	ID string
	// State is one word, such as RUNNING.
	State, Reason, ExitCode       string
	Account, AllocatedCPUs, Nodes string
}

// SacctFields are what sacct is to print, in the order in which Sacct reads them.
const SacctFields = "JobIDRaw,State,Reason,ExitCode,Account,AllocCPUS,NodeList"

// Sacct reads what sacct --parsable2 --noheader --allocations prints of one job; false if that is nothing.
func Sacct(text string) (Job, bool, error) {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return Job{}, false, nil
	}
	f := strings.Split(line, "|")
	if len(f) != strings.Count(SacctFields, ",")+1 || f[0] == "" || f[1] == "" {
		return Job{}, false, fmt.Errorf("sacct answers %q", line)
	}
	return Job{ID: f[0], State: word(f[1]), Reason: none(f[2]), ExitCode: f[3], Account: f[4], AllocatedCPUs: f[5], Nodes: none(f[6])}, true, nil
}

// Scontrol reads what scontrol --oneliner show job prints of one job; false if that is nothing.
func Scontrol(text string) (Job, bool, error) {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return Job{}, false, nil
	}
	fields := map[string]string{}
	for f := range strings.FieldsSeq(line) { // values with blanks are none of ours
		if key, value, ok := strings.Cut(f, "="); ok {
			if _, twice := fields[key]; !twice {
				fields[key] = value
			}
		}
	}
	if fields["JobId"] == "" || fields["JobState"] == "" {
		return Job{}, false, fmt.Errorf("scontrol answers %q", line)
	}
	return Job{
		ID: fields["JobId"], State: word(fields["JobState"]), Reason: none(fields["Reason"]), ExitCode: fields["ExitCode"],
		Account: none(fields["Account"]), AllocatedCPUs: fields["NumCPUs"], Nodes: none(fields["NodeList"]),
	}, true, nil
}

// word is the state without what may follow: "CANCELLED by 1000" is CANCELLED, "CANCELLED+" too.
func word(state string) string {
	state, _, _ = strings.Cut(state, " ")
	return strings.TrimSuffix(state, "+")
}

// none is empty where Slurm says in words that there is nothing.
func none(s string) string {
	switch s {
	case "None", "(null)", "None assigned", "Unknown":
		return ""
	}
	return s
}

// Ended tells whether a job in a state will not go on.
func Ended(state string) bool {
	switch state {
	case "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESIZING",
		"RESV_DEL_HOLD", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "":
		return false
	}
	return true
}

// Succeeded tells whether it has ended well.
func Succeeded(state string) bool { return state == "COMPLETED" }
