// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types of a Dns's conditions, all of them True when all is well.
const (
	// Accepted: no older object has the host, or one of the paths.
	Accepted = "Accepted"
	// ResolvedRefs: all Services and ports of the paths are there.
	ResolvedRefs = "ResolvedRefs"
	// Programmed: requests for the host are served, and cluster DNS has its name.
	Programmed = "Programmed"
	// InHostsFile: the machine of the cluster has the name, too.
	InHostsFile = "InHostsFile"
)

// Reasons of conditions.
const (
	// ReasonAccepted, ReasonResolvedRefs, ReasonProgrammed and ReasonWritten are those of True.
	ReasonAccepted     = "Accepted"
	ReasonResolvedRefs = "ResolvedRefs"
	ReasonProgrammed   = "Programmed"
	ReasonWritten      = "Written"
	// ReasonHostConflict: an older Dns of another namespace has the host, and nothing of this one is served.
	ReasonHostConflict = "HostConflict"
	// ReasonPathConflict: an older Dns of the namespace has a path of this host. The other paths are served.
	ReasonPathConflict = "PathConflict"
	// ReasonServiceNotFound and ReasonPortNotFound: requests for such a path are answered by 503.
	ReasonServiceNotFound = "ServiceNotFound"
	ReasonPortNotFound    = "PortNotFound"
	// ReasonUnsupportedService: the Service is of a type that has no endpoints. Requests are answered by 503.
	ReasonUnsupportedService = "UnsupportedService"
	// ReasonNotAccepted: there is nothing to serve, see Accepted.
	ReasonNotAccepted = "NotAccepted"
	// ReasonListenFailed: the router cannot open its port.
	ReasonListenFailed = "ListenFailed"
	// ReasonNotProgrammed: a name is written only where somebody answers.
	ReasonNotProgrammed = "NotProgrammed"
	// ReasonNameTaken: somebody else's line of the hosts file has the name.
	ReasonNameTaken = "NameTaken"
	// ReasonWriteFailed: the hosts file cannot be changed.
	ReasonWriteFailed = "WriteFailed"
)

// Dns gives a host name to Services: each path below it leads to a port of one. The name resolves in pods and on the cluster's machine,
// and http://HOST/PATH is served by the cluster's router.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dns,singular=dns,scope=Namespaced,categories=minik8s
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses[0]`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Resolved",type=string,JSONPath=`.status.conditions[?(@.type=="ResolvedRefs")].status`,priority=1
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Dns struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +required
	Spec DnsSpec `json:"spec"`
	// Status is what there is, written by the router and by the keeper of the machine's hosts file.
	// +optional
	Status DnsStatus `json:"status,omitempty"`
}

// DnsSpec is a host with its paths.
type DnsSpec struct {
	// Host is the name, such as shop.example.test, in lower case. Several Dns objects of one namespace may share a host; between
	// namespaces the older object has it. It may be neither an address, nor localhost, nor a name below cluster.local.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.]+$')",message="is an address; a host is a name"
	// +kubebuilder:validation:XValidation:rule="self != 'localhost' && !self.endsWith('.localhost')",message="localhost is each machine's own"
	// +kubebuilder:validation:XValidation:rule="self != 'cluster.local' && !self.endsWith('.cluster.local')",message="names below cluster.local are those of Services and pods"
	Host string `json:"host"`
	// Paths say which requests of the host go to which Service. Of several that fit the longest wins. A host of more paths than an
	// object may have is shared by several objects.
	// +required
	// +listType=map
	// +listMapKey=subPath
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="!(self.exists(p, p.subPath == '') && self.exists(p, p.subPath == '/'))",message="an empty subPath and / are the same path"
	Paths []DnsPath `json:"paths"`
}

// DnsPath leads to a Service.
type DnsPath struct {
	// SubPath fits requests for it and for what is below it, by elements: /a fits /a and /a/b, and not /ab. The Service gets the
	// request without it: /a/b as /b. / fits all.
	// +optional
	// +default="/"
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(/|(/[-A-Za-z0-9._~!$&'()*+,;=:@]+)+)?$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('/[.][.]?(/|$)')",message="may not have the elements . and .."
	SubPath string `json:"subPath"`
	// Service is the name of one in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Service string `json:"service"`
	// Port of the Service, by its number or its name.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1 && self <= 65535",message="is no number from 1 to 65535"
	Port intstr.IntOrString `json:"port"`
}

// DnsStatus is what there is of a Dns.
type DnsStatus struct {
	// ObservedGeneration is the generation of the spec that the router has last seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Addresses are where the host is served, to which its name resolves. There are none while it is not served.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []string `json:"addresses,omitempty"`
	// URL is where requests go, with the port if that is not 80.
	// +optional
	URL string `json:"url,omitempty"`
	// Conditions say whether the host is served, and if not, what to do. Their types are Accepted, ResolvedRefs, Programmed and
	// InHostsFile.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DnsList is a list of Dns objects.
//
// +kubebuilder:object:root=true
type DnsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects.
	Items []Dns `json:"items"`
}
