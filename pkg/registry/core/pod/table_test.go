// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func ended(code, signal int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Signal: signal, Reason: reason}}
}

var isRunning = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

func TestRow(t *testing.T) {
	yes, always := true, corev1.ContainerRestartPolicyAlways
	deleted := metav1.Now()
	ago := metav1.NewTime(time.Now().Add(-5*time.Minute - time.Second))
	tests := []struct {
		name string
		pod  corev1.Pod
		want []any // ready, status, restarts
	}{
		{
			name: "pending", want: []any{"0/1", "Pending", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Pending"}},
		},
		{
			name: "gated", want: []any{"0/1", "SchedulingGated", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Pending",
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: corev1.PodReasonSchedulingGated}}}},
		},
		{
			name: "creating", want: []any{"0/1", "ContainerCreating", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Pending",
				ContainerStatuses: []corev1.ContainerStatus{{State: waiting("ContainerCreating")}}}},
		},
		{
			name: "second init container", want: []any{"0/1", "Init:1/2", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{InitContainers: make([]corev1.Container, 2), Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Pending",
				InitContainerStatuses: []corev1.ContainerStatus{{State: ended(0, 0, "Completed")}, {State: isRunning}},
				ContainerStatuses:     []corev1.ContainerStatus{{State: waiting("PodInitializing")}}}},
		},
		{
			name: "failing init container", want: []any{"0/1", "Init:CrashLoopBackOff", "3 (5m1s ago)"},
			pod: corev1.Pod{Spec: corev1.PodSpec{InitContainers: make([]corev1.Container, 1), Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Pending",
				InitContainerStatuses: []corev1.ContainerStatus{{State: waiting("CrashLoopBackOff"), RestartCount: 3,
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago}}}}}},
		},
		{
			name: "init container that a signal ended", want: []any{"0/1", "Init:Signal:9", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{InitContainers: make([]corev1.Container, 1), Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Pending",
				InitContainerStatuses: []corev1.ContainerStatus{{State: ended(137, 9, "")}}}},
		},
		{
			name: "running with sidecar", want: []any{"2/2", "Running", "1"},
			pod: corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "s", RestartPolicy: &always}}, Containers: make([]corev1.Container, 1)},
				Status: corev1.PodStatus{Phase: "Running",
					InitContainerStatuses: []corev1.ContainerStatus{{Name: "s", State: isRunning, Started: &yes, Ready: true, RestartCount: 1}},
					ContainerStatuses:     []corev1.ContainerStatus{{State: isRunning, Ready: true}}}},
		},
		{
			name: "crashing", want: []any{"1/2", "CrashLoopBackOff", "4 (5m1s ago)"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}, Status: corev1.PodStatus{Phase: "Running",
				ContainerStatuses: []corev1.ContainerStatus{
					{State: waiting("CrashLoopBackOff"), RestartCount: 4, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago}}},
					{State: isRunning, Ready: true},
				}}},
		},
		{
			name: "completed", want: []any{"0/1", "Completed", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Succeeded",
				ContainerStatuses: []corev1.ContainerStatus{{State: ended(0, 0, "Completed")}}}},
		},
		{
			name: "one completed, one ready", want: []any{"1/2", "NotReady", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}, Status: corev1.PodStatus{Phase: "Running",
				ContainerStatuses: []corev1.ContainerStatus{{State: ended(0, 0, "Completed")}, {State: isRunning, Ready: true}}}},
		},
		{
			name: "failed without reason", want: []any{"0/1", "ExitCode:2", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Failed",
				ContainerStatuses: []corev1.ContainerStatus{{State: ended(2, 0, "")}}}},
		},
		{
			name: "evicted", want: []any{"0/1", "Evicted", "0"},
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}, Status: corev1.PodStatus{Phase: "Failed", Reason: "Evicted"}},
		},
		{
			name: "terminating", want: []any{"1/1", "Terminating", "0"},
			pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)},
				Status: corev1.PodStatus{Phase: "Running", ContainerStatuses: []corev1.ContainerStatus{{State: isRunning, Ready: true}}}},
		},
		{
			name: "terminating on a lost node", want: []any{"0/1", "Unknown", "0"},
			pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)},
				Status: corev1.PodStatus{Phase: "Running", Reason: "NodeLost"}},
		},
		{
			name: "deleted after its end", want: []any{"0/1", "Completed", "0"},
			pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)},
				Status: corev1.PodStatus{Phase: "Succeeded", ContainerStatuses: []corev1.ContainerStatus{{State: ended(0, 0, "Completed")}}}},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, row(&tc.pod)[1:4]); diff != "" {
				t.Errorf("ready, status, restarts (-want +got):\n%s", diff)
			}
		})
	}
	failed := rowConditions(&corev1.Pod{Status: corev1.PodStatus{Phase: "Failed"}})
	if len(failed) != 1 || failed[0].Reason != "Failed" || rowConditions(&corev1.Pod{Status: corev1.PodStatus{Phase: "Running"}}) != nil {
		t.Errorf("conditions of a failed pod's row: %+v", failed)
	}
	wide := row(&corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "n", ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}},
		Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{{Type: "a", Status: corev1.ConditionTrue}}},
	})[5:]
	if diff := cmp.Diff([]any{"10.0.0.1", "n", "<none>", "1/2"}, wide); diff != "" {
		t.Errorf("wide columns (-want +got):\n%s", diff)
	}
}

func TestValidateStatus(t *testing.T) {
	no := corev1.ContainerRestartPolicyNever
	status := func(name string, s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, State: s}}
	}
	tests := []struct {
		name     string
		pod, old corev1.Pod
		want     []string // fields of errors
	}{
		{name: "restart under Always",
			old: corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: "Always", Containers: []corev1.Container{{Name: "c"}}}, Status: corev1.PodStatus{ContainerStatuses: status("c", ended(1, 0, ""))}},
			pod: corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: status("c", isRunning)}}},
		{name: "restart of what is not in the spec", want: []string{"status.containerStatuses[0].state"},
			old: corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: "Always"}, Status: corev1.PodStatus{ContainerStatuses: status("c", ended(1, 0, ""))}},
			pod: corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: status("c", isRunning)}}},
		{name: "restart of a success under OnFailure", want: []string{"status.containerStatuses[0].state"},
			old: corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: "OnFailure"}, Status: corev1.PodStatus{ContainerStatuses: status("c", ended(0, 0, ""))}},
			pod: corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: status("c", isRunning)}}},
		{name: "restart against the container's own policy", want: []string{"status.containerStatuses[0].state"},
			old: corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: "Always", Containers: []corev1.Container{{Name: "c", RestartPolicy: &no}}},
				Status: corev1.PodStatus{ContainerStatuses: status("c", ended(1, 0, ""))}},
			pod: corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: status("c", isRunning)}}},
		{name: "class", want: []string{"status.qosClass"},
			old: corev1.Pod{Status: corev1.PodStatus{QOSClass: "Burstable"}}, pod: corev1.Pod{Status: corev1.PodStatus{QOSClass: "BestEffort"}}},
		{name: "two families", pod: corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}}}},
		{name: "one family twice", want: []string{"status.podIPs"},
			pod: corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}}}},
		{name: "host addresses differ", want: []string{"status.hostIPs[0].ip"},
			pod: corev1.Pod{Status: corev1.PodStatus{HostIP: "10.0.0.2", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}}}}},
		{name: "addresses of the pod differ", want: []string{"status.podIPs[0].ip"},
			pod: corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.2", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}},
		{name: "address of the old pod", old: corev1.Pod{Status: corev1.PodStatus{PodIP: "010.0.0.1", PodIPs: []corev1.PodIP{{IP: "010.0.0.1"}}}},
			pod: corev1.Pod{Status: corev1.PodStatus{PodIP: "010.0.0.1", PodIPs: []corev1.PodIP{{IP: "010.0.0.1"}}}}},
		{name: "nominated though bound", want: []string{"status.nominatedNodeName"},
			old: corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, pod: corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: "m"}}},
		{name: "claims", want: []string{"status.resourceClaimStatuses[0].name", "status.extendedResourceClaimStatus.requestMappings", "status.extendedResourceClaimStatus.resourceClaimName"},
			pod: corev1.Pod{Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "x"}}, ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{}}}},
		{name: "user", want: []string{"status.containerStatuses[0].user.linux.uid"},
			pod: corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: -1}}}}}}},
		{name: "health", want: []string{
			"status.containerStatuses[0].allocatedResourcesStatus[0].name", "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health",
			"status.containerStatuses[0].allocatedResourcesStatus[1].resources[1].resourceID"},
			pod: corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "a", Request: "r"}}}}}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", AllocatedResourcesStatus: []corev1.ResourceStatus{
					{Name: "claim:a", Resources: []corev1.ResourceHealth{{ResourceID: "1"}}},
					{Name: "claim:a/r", Resources: []corev1.ResourceHealth{{ResourceID: "1", Health: "Healthy"}, {ResourceID: "1", Health: "Healthy"}}},
				}}}},
			}},
		{name: "condition", want: []string{"status.conditions[0].Type"},
			pod: corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "a b"}}}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range validateStatus(t.Context(), &tc.pod, &tc.old) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	with := func(ip string, ports ...int32) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{PodIP: ip}, Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}}
		for _, port := range ports {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: port})
		}
		return p
	}
	tests := []struct {
		name         string
		pod          *corev1.Pod
		scheme, port string
		want         string // "" if refused
	}{
		{name: "first port", pod: with("10.0.0.1", 80, 81), want: "//10.0.0.1:80"},
		{name: "given port", pod: with("10.0.0.1", 80), scheme: "https", port: "443", want: "https://10.0.0.1:443"},
		{name: "no port", pod: with("fd00::1"), want: "//[fd00::1]"},
		{name: "no address", pod: with("")},
		{name: "loopback", pod: with("127.0.0.1", 80)},
		{name: "metadata service", pod: with("169.254.169.254", 80)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			u, err := locate(tc.pod, tc.scheme, tc.port)
			if tc.want == "" {
				if err == nil {
					t.Errorf("got %v, want an error", u)
				}
				return
			}
			if err != nil || u.String() != tc.want {
				t.Errorf("got %v, %v, want %s", u, err, tc.want)
			}
		})
	}
}
