// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Cyclonus runs the cases of github.com/mattfenwick/cyclonus against the cluster of KUBECONFIG, and prints which of them passed; it fails if
// one did not. That a pod reaches itself does not count: Kubernetes lets nobody forbid it, and cyclonus expects it forbidden. Touch it for
// another choice of cases.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/mattfenwick/cyclonus/pkg/connectivity"
	"github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/generator"
	"github.com/mattfenwick/cyclonus/pkg/kube"
	corev1 "k8s.io/api/core/v1"
)

func main() {
	include, exclude := flag.String("include", "", "tags of the cases to run, separated by commas; empty are all"), flag.String("exclude", "", "tags of cases to leave out")
	wait := flag.Int("perturbation-wait-seconds", 2, "how long a change may take to be in force")
	flag.Parse()
	failed, err := run(tags(*include), tags(*exclude), *wait)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

func tags(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func run(include, exclude []string, wait int) (failed int, err error) {
	if err := generator.ValidateTags(append(include, exclude...)); err != nil {
		return 0, err
	}
	cluster, err := kube.NewKubernetesForContext("")
	if err != nil {
		return 0, err
	}
	namespaces, pods := []string{"x", "y", "z"}, []string{"a", "b", "c"}
	protocols := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	resources, err := probe.NewDefaultResources(cluster, namespaces, pods, []int{80, 81}, protocols, nil, 300, true, "registry.k8s.io")
	if err != nil {
		return 0, err
	}
	outsider, err := resources.GetPod("z", "c")
	if err != nil {
		return 0, err
	}
	interpreter := connectivity.NewInterpreter(cluster, resources, &connectivity.InterpreterConfig{
		ResetClusterBeforeTestCase: true, VerifyClusterStateBeforeTestCase: true, KubeProbeRetries: 2, IgnoreLoopback: true, PerturbationWaitSeconds: wait,
		BatchJobs: true, // one program in each pod makes all of its connections: 486 begun one by one take half a minute
	})
	cases := generator.NewTestCaseGenerator(true, outsider.IP, namespaces, include, exclude).GenerateTestCases()
	printer := &connectivity.Printer{IgnoreLoopback: true}
	for i, c := range cases {
		result := interpreter.ExecuteTestCase(c)
		switch {
		case result.Err != nil:
			failed++
			fmt.Printf("failed: %d %s: %v\n", i+1, c.Description, result.Err)
		case !result.Passed(true):
			failed++
			printer.PrintTestCaseResult(result)
			fmt.Printf("failed: %d %s\n", i+1, c.Description)
		default:
			fmt.Printf("passed: %d %s\n", i+1, c.Description)
		}
	}
	if len(cases) == 0 {
		return 0, fmt.Errorf("no case has the tags %q", include)
	}
	fmt.Printf("cases: %d passed, %d failed\n", len(cases)-failed, failed)
	return failed, nil
}
