// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Function is code that answers HTTP requests in pods which come with requests and go without: a request is held until there is a
// pod. It is called at the Service of its name, and by kubectl execute.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fn,categories=minik8s
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.readyRevision`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 48 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name is also that of a Service and begins names of pods: a DNS label that begins with a letter, of at most 48 characters"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the function is to be.
	// +required
	Spec FunctionSpec `json:"spec"`
	// status is what has come of it.
	// +optional
	Status FunctionStatus `json:"status,omitempty"`
}

// FunctionSpec is what a function is to be. A change of runtime, handler, source, env, envFrom, resources, serviceAccountName, port or
// timeoutSeconds makes a new revision, which takes over once it has been seen to work.
//
// +kubebuilder:validation:XValidation:rule="has(self.source.image) != has(self.runtime)",message="runtime is needed with source.inline and source.configMap, and not allowed with source.image"
// +kubebuilder:validation:XValidation:rule="self.maxScale == 0 || self.minScale <= self.maxScale",message="minScale must not be above maxScale"
// +kubebuilder:validation:XValidation:rule="!has(self.traffic) || self.traffic.map(t, t.percent).sum() == 100",message="the percentages of traffic must add up to 100"
type FunctionSpec struct {
	// runtime is the language of the code: python or node. A function from an image has none.
	// +optional
	// +kubebuilder:validation:Enum=python;node
	Runtime Runtime `json:"runtime,omitempty"`
	// handler is MODULE.FUNCTION: func.main is the function main of func.py (python) or func.js (node). It is called with the request's
	// JSON and returns what is answered as JSON. Meaningless for a function from an image.
	// +optional
	// +kubebuilder:default="func.main"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$`
	Handler string `json:"handler,omitempty"`
	// source is where the code comes from.
	// +required
	Source Source `json:"source"`
	// env are environment variables of the code.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Env []corev1.EnvVar `json:"env,omitempty"`
	// envFrom are ConfigMaps and Secrets whose keys become environment variables of the code.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// resources are what each pod needs, and may use at most.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// serviceAccountName is who the code is for the API server. Without it pods have no token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// port is where an image listens, which it is also told as $PORT.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// concurrency is how many requests a pod has at the same time, at most.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Concurrency int32 `json:"concurrency,omitempty"`
	// minScale is how many pods there always are; with 0 there are none when nobody calls.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinScale int32 `json:"minScale"`
	// maxScale is how many pods there are at most; 0 is no limit.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxScale int32 `json:"maxScale"`
	// timeoutSeconds is how long a request may take in a pod. Then it is answered with 504.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// idleSeconds is how long nobody has called when the last pod goes.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	IdleSeconds int32 `json:"idleSeconds,omitempty"`
	// revisionHistoryLimit is how many revisions are kept beside those that have traffic.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// traffic splits requests among revisions. Without it all go to the newest one that works.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Traffic []Traffic `json:"traffic,omitempty"`
	// triggers call the function without somebody asking for it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Triggers []Trigger `json:"triggers,omitempty"`
}

// Runtime is a language that functions are written in.
type Runtime string

// The runtimes.
const (
	Python Runtime = "python"
	Node   Runtime = "node"
)

// Source is where code comes from: one of its fields.
//
// +kubebuilder:validation:XValidation:rule="(has(self.inline) ? 1 : 0) + (has(self.configMap) ? 1 : 0) + (has(self.image) ? 1 : 0) == 1",message="exactly one of inline, configMap and image is needed"
type Source struct {
	// inline is the text of the handler's module.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Inline string `json:"inline,omitempty"`
	// configMap has a key per file. minik8s function create makes one of a directory. A change of it is a new revision.
	// +optional
	ConfigMap *ConfigMapSource `json:"configMap,omitempty"`
	// image is one of a program that answers HTTP on the port $PORT.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
}

// ConfigMapSource names a ConfigMap of the function's namespace.
type ConfigMapSource struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Traffic is the share of one revision.
type Traffic struct {
	// revision is a name of status.revisions, or latest: the newest one that works.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision"`
	// percent of the requests.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent"`
}

// Latest is the revision of a share that goes to the newest one that works.
const Latest = "latest"

// Trigger calls the function: by one of its fields.
//
// +kubebuilder:validation:XValidation:rule="(has(self.cron) ? 1 : 0) + (has(self.objects) ? 1 : 0) + (has(self.webhook) ? 1 : 0) == 1",message="exactly one of cron, objects and webhook is needed"
type Trigger struct {
	// name tells triggers of a function apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// cron calls it at times.
	// +optional
	Cron *CronTrigger `json:"cron,omitempty"`
	// objects calls it when objects of the API change.
	// +optional
	Objects *ObjectTrigger `json:"objects,omitempty"`
	// webhook lets others call it who prove that they know a secret.
	// +optional
	Webhook *WebhookTrigger `json:"webhook,omitempty"`
}

// CronTrigger is the times of a trigger. Times that pass while no controller runs are not made up for.
type CronTrigger struct {
	// schedule in the format of cron, such as "*/5 * * * *", or @every 30s.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Schedule string `json:"schedule"`
	// timeZone is a name of the tz database; UTC without it.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	TimeZone string `json:"timeZone,omitempty"`
	// payload is the JSON that the function is called with.
	// +optional
	// +kubebuilder:default="{}"
	// +kubebuilder:validation:MaxLength=65536
	Payload string `json:"payload,omitempty"`
}

// ObjectTrigger is the objects of a trigger: those of a kind in the function's namespace, or of the cluster if the kind has no namespaces.
// Each change is a call with a CloudEvent that has the object as its data. What changes while no controller runs is told by the next one.
type ObjectTrigger struct {
	// apiVersion of the kind, such as v1 or apps/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// selector is of the labels of the objects; without it all objects are meant. One whose labels cease to be those is as one deleted.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// changes are those that call; without it all do.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	Changes []ObjectChange `json:"changes,omitempty"`
	// serviceAccountName is whose right to list and watch the objects is used; without it spec.serviceAccountName, or default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// ObjectChange is what has happened to an object.
//
// +kubebuilder:validation:Enum=Added;Modified;Deleted
type ObjectChange string

// The changes of objects.
const (
	ObjectAdded    ObjectChange = "Added"
	ObjectModified ObjectChange = "Modified"
	ObjectDeleted  ObjectChange = "Deleted"
)

// WebhookTrigger is how others prove that they may call: they POST to /.minik8s/webhooks/NAME, with a signature of GitHub's kind
// (X-Hub-Signature-256), one of standardwebhooks.com, or the secret itself (Authorization: Bearer, X-Gitlab-Token).
type WebhookTrigger struct {
	// secret that they have to know.
	// +required
	Secret SecretKey `json:"secret"`
}

// SecretKey names a value in a Secret of the function's namespace.
type SecretKey struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key of the value.
	// +optional
	// +kubebuilder:default=secret
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// FunctionStatus is what has come of a function.
type FunctionStatus struct {
	// observedGeneration is the generation of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// url is where pods and the machines of the cluster call the function.
	// +optional
	URL string `json:"url,omitempty"`
	// replicas is how many pods there are, of all revisions.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many of them take requests.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// latestRevision is what the spec makes.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`
	// readyRevision is the newest revision that works.
	// +optional
	ReadyRevision string `json:"readyRevision,omitempty"`
	// revisions are those that are kept, newest first.
	// +optional
	// +listType=map
	// +listMapKey=name
	Revisions []RevisionStatus `json:"revisions,omitempty"`
	// triggers are those that watch objects.
	// +optional
	// +listType=map
	// +listMapKey=name
	Triggers []TriggerStatus `json:"triggers,omitempty"`
	// conditions are Ready: the function can be called, and what the spec says is what answers.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RevisionStatus is a revision of a function.
type RevisionStatus struct {
	// name of the revision.
	Name string `json:"name"`
	// replicas is how many pods it has.
	// +optional
	Replicas int32 `json:"replicas"`
	// percent of the requests that it gets.
	// +optional
	Percent int32 `json:"percent"`
}

// TriggerStatus is how far a trigger that watches objects has got.
type TriggerStatus struct {
	// name of the trigger.
	Name string `json:"name"`
	// told is the version of the objects up to which each change was told. A controller that begins goes on from there.
	Told string `json:"told"`
}

// ConditionReady is the type of the condition that a function can be called, and that what its spec says is what answers.
const ConditionReady = "Ready"

// Reasons of the condition Ready.
const (
	// ReasonReady is that of a function that works, with pods or without.
	ReasonReady = "Ready"
	// ReasonStarting is that of a revision whose first pod is on its way.
	ReasonStarting = "Starting"
	// ReasonSource is that of code which cannot be had.
	ReasonSource = "SourceUnavailable"
	// ReasonHandler is that of code which does not load.
	ReasonHandler = "HandlerFailed"
	// ReasonPod is that of pods which do not start, for the want of an image or of room.
	ReasonPod = "PodFailed"
	// ReasonConflict is that of a Service of the same name which is not the function's.
	ReasonConflict = "NameTaken"
	// ReasonTraffic is that of traffic to a revision which is not there.
	ReasonTraffic = "RevisionUnknown"
	// ReasonTrigger is that of a trigger whose times cannot be read, or whose objects cannot be watched.
	ReasonTrigger = "TriggerInvalid"
	// ReasonSecret is that of a webhook whose Secret nobody has allowed to be read.
	ReasonSecret = "SecretForbidden"
)

// FunctionList is a list of functions.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Function `json:"items"`
}
