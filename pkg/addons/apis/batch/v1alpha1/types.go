// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Finalizer keeps a SlurmJob until nothing of it is left on the Slurm cluster.
	Finalizer = "batch.minik8s.io/slurm"
	// AbandonAnnotation with the value "true" lets a SlurmJob be deleted although its Slurm cluster cannot be reached. What is there
	// stays there.
	AbandonAnnotation = "batch.minik8s.io/abandon"
)

// Types of a SlurmJob's conditions.
const (
	// Reachable: the login node lets us in.
	Reachable = "Reachable"
	// Submitted: Slurm has the job.
	Submitted = "Submitted"
	// Complete: the job has ended well.
	Complete = "Complete"
	// Failed: the job has ended otherwise, or will never be submitted.
	Failed = "Failed"
)

// SlurmJob is a job that a Slurm cluster runs: its source is copied to the login node and compiled there, a script is submitted by
// sbatch, and what becomes of it comes back into the status. Deleting it cancels the job.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=slurmjobs,singular=slurmjob,shortName=sj,scope=Namespaced,categories=minik8s
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Job",type=string,JSONPath=`.status.jobID`
// +kubebuilder:printcolumn:name="Exit",type=string,JSONPath=`.status.exitCode`
// +kubebuilder:printcolumn:name="Partition",type=string,JSONPath=`.spec.partition`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodeList`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SlurmJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted. It cannot be changed: what was submitted was submitted.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another SlurmJob"
	Spec SlurmJobSpec `json:"spec"`
	// Status is what Slurm says.
	// +optional
	Status SlurmJobStatus `json:"status,omitempty"`
}

// SlurmJobSpec says what runs where.
//
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.source.volume) || has(self.pod)",message="a volume is read by a pod: pod is needed, too"
type SlurmJobSpec struct {
	// Login is the node of the Slurm cluster to which its users log in.
	// +required
	Login Login `json:"login"`
	// Source are the files that the job needs. Without it the directory of the job is empty.
	// +optional
	Source *Source `json:"source,omitempty"`
	// Pod says how the pods of the job are, which there are with it only: a volume is copied by one, and the log of one, NAME-slurm, is what
	// the job has written.
	// +optional
	Pod *Pod `json:"pod,omitempty"`
	// Compile are commands that run on the login node, in the directory of the job, before it is submitted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=4096
	Compile []string `json:"compile,omitempty"`
	// CompileSeconds is how long these may take together.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	CompileSeconds int32 `json:"compileSeconds,omitempty"`
	// Run are the commands of the job, in the directory of the job. The first that fails ends it.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=4096
	Run []string `json:"run"`
	// Partition is the queue; default the cluster's own.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.,-]+$`
	Partition string `json:"partition,omitempty"`
	// Account is what the job is charged to; default the user's own.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	Account string `json:"account,omitempty"`
	// Nodes is on how many nodes the job runs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Nodes int32 `json:"nodes,omitempty"`
	// Tasks is how many tasks it has.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Tasks int32 `json:"tasks,omitempty"`
	// TasksPerNode is how many of them are on each node.
	// +optional
	// +kubebuilder:validation:Minimum=1
	TasksPerNode int32 `json:"tasksPerNode,omitempty"`
	// CPUsPerTask is how many CPUs each task has.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CPUsPerTask int32 `json:"cpusPerTask,omitempty"`
	// Memory is what the job has on each node; rounded up to a mebibyte.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// GPUs is how many the job has on each node.
	// +optional
	// +kubebuilder:validation:Minimum=1
	GPUs int32 `json:"gpus,omitempty"`
	// TimeLimit is how long the job may run, such as 90m; rounded up to a minute. Default that of the partition.
	// +optional
	TimeLimit *metav1.Duration `json:"timeLimit,omitempty"`
	// PollSeconds is how often Slurm is asked.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PollSeconds int32 `json:"pollSeconds,omitempty"`
}

// Login is how to get in.
type Login struct {
	// Host is the name or address of the login node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`
	// Port is that of SSH.
	// +optional
	// +kubebuilder:default=22
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// User is who logs in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	User string `json:"user"`
	// SecretName names a Secret in the same namespace. ssh-privatekey (as in Secrets of type kubernetes.io/ssh-auth) is the user's key,
	// known_hosts the login node's, in the form of the file of this name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// Source are files.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMapName) != has(self.volume)",message="exactly one of configMapName and volume is needed"
type Source struct {
	// ConfigMapName names a ConfigMap in the same namespace; each of its keys becomes a file.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMapName string `json:"configMapName,omitempty"`
	// Volume is a directory of a volume, copied with all below it. A pod mounts it for as long as that takes, an hour at most; see pod.
	// +optional
	Volume *VolumeSource `json:"volume,omitempty"`
}

// VolumeSource is a directory of a volume.
type VolumeSource struct {
	// ClaimName names a PersistentVolumeClaim in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// Path is that of the directory in the volume, without a slash at its begin; default the whole volume.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(e, e == '..')",message="must be relative and must not have '..' in it"
	Path string `json:"path,omitempty"`
}

// Pod is what is told of the pods that a SlurmJob has in this cluster: one that mounts the volume of the source while it is copied, one whose
// log is what the job has written.
type Pod struct {
	// Image has sh, sleep, tar and cat, as those of most distributions have.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// RunAsUser is who reads the volume; default whom the image says. It has no capabilities: root reads what all may read, and its own.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`
	// ImagePullSecrets name Secrets in the same namespace by which the image is pulled.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// SlurmJobStatus is what Slurm says.
type SlurmJobStatus struct {
	// State is Slurm's, such as PENDING, RUNNING, COMPLETED or FAILED; empty before the job is submitted.
	// +optional
	State string `json:"state,omitempty"`
	// Reason is why Slurm lets the job wait, or why it ended as it did.
	// +optional
	Reason string `json:"reason,omitempty"`
	// JobID is Slurm's name for the job.
	// +optional
	JobID string `json:"jobID,omitempty"`
	// Directory is that of the job on the login node, relative to the user's home.
	// +optional
	Directory string `json:"directory,omitempty"`
	// ExitCode is that of the script and the signal that ended it, as Slurm writes them: 0:0 is success.
	// +optional
	ExitCode string `json:"exitCode,omitempty"`
	// Account is what the job is charged to.
	// +optional
	Account string `json:"account,omitempty"`
	// AllocatedCPUs is how many CPUs it has.
	// +optional
	AllocatedCPUs string `json:"allocatedCPUs,omitempty"`
	// NodeList is where it runs.
	// +optional
	NodeList string `json:"nodeList,omitempty"`
	// StartTime is when it was submitted.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when its end was seen.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// CompileOutput is the end of what the compile commands have written, 16 KiB at most.
	// +optional
	CompileOutput string `json:"compileOutput,omitempty"`
	// Output is the end of what the job has written, 16 KiB at most.
	// +optional
	Output string `json:"output,omitempty"`
	// Error is the end of what it has written to its standard error, 16 KiB at most.
	// +optional
	Error string `json:"error,omitempty"`
	// ResultConfigMapName names the ConfigMap whose keys output and error have the last 450 KiB of each.
	// +optional
	ResultConfigMapName string `json:"resultConfigMapName,omitempty"`
	// Conditions are Reachable, Submitted, Complete and Failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SlurmJobList is a list of SlurmJobs.
//
// +kubebuilder:object:root=true
type SlurmJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SlurmJob `json:"items"`
}
