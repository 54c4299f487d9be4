// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Invocation is a request to a function that nobody waits for ("Prefer: respond-async"). It is kept until it has its answer, and then with
// this for ten minutes. It is made at least once: one that a killed process has left without an answer is made again by the next.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=minik8s
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.function`
// +kubebuilder:printcolumn:name="Code",type=integer,JSONPath=`.status.code`
// +kubebuilder:printcolumn:name="Answered",type=date,JSONPath=`.status.completionTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Invocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the request.
	// +required
	Spec InvocationSpec `json:"spec"`
	// status is the answer.
	// +optional
	Status InvocationStatus `json:"status,omitempty"`
}

// InvocationSpec is a request.
type InvocationSpec struct {
	// function in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the function of an invocation cannot be changed"
	Function string `json:"function"`
	// method of HTTP.
	// +optional
	// +kubebuilder:default=POST
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z]+$`
	Method string `json:"method,omitempty"`
	// path of the URL, with the query.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// host that the request was sent to.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`
	// client is the address that it came from, with a port.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Client string `json:"client,omitempty"`
	// header of the request.
	// +optional
	Header map[string][]string `json:"header,omitempty"`
	// body of the request, 512 KiB at most.
	// +optional
	// +kubebuilder:validation:MaxLength=699052
	Body []byte `json:"body,omitempty"`
}

// InvocationStatus is an answer.
type InvocationStatus struct {
	// completionTime is when there was one.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// code is the status of HTTP, such as 200.
	// +optional
	Code int32 `json:"code,omitempty"`
	// contentType is what the body is.
	// +optional
	ContentType string `json:"contentType,omitempty"`
	// body of the answer, 512 KiB at most.
	// +optional
	Body []byte `json:"body,omitempty"`
	// tooLarge tells that the body was larger than that, and none of it is kept.
	// +optional
	TooLarge bool `json:"tooLarge,omitempty"`
}

// InvocationList is a list of invocations.
//
// +kubebuilder:object:root=true
type InvocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Invocation `json:"items"`
}
