// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is the list of the admission plugins in the order in which they run; a new one is a folder here and a
// line in plugins. See https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/.
package admission

import (
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/apiserver/admission/alwayspullimages"
	"minik8s.io/minik8s/pkg/apiserver/admission/defaulttolerationseconds"
	"minik8s.io/minik8s/pkg/apiserver/admission/denyserviceexternalips"
	"minik8s.io/minik8s/pkg/apiserver/admission/limitranger"
	"minik8s.io/minik8s/pkg/apiserver/admission/noderestriction"
	"minik8s.io/minik8s/pkg/apiserver/admission/podsecurity"
	"minik8s.io/minik8s/pkg/apiserver/admission/podtopologylabels"
	"minik8s.io/minik8s/pkg/apiserver/admission/priority"
	"minik8s.io/minik8s/pkg/apiserver/admission/resourcequota"
	"minik8s.io/minik8s/pkg/apiserver/admission/serviceaccount"
	"minik8s.io/minik8s/pkg/apiserver/admission/taintnodesbycondition"
)

// Config of admission.
type Config struct {
	// Enable adds plugins to those that are on by default, Disable takes some away. Upstream's names.
	Enable, Disable []string
	// Client is what plugins look things up with.
	Client kubernetes.Interface
	// Informers feed the plugins; the caller starts them.
	Informers informers.SharedInformerFactory
	// Authorizer is asked by plugins that depend on what the user may do.
	Authorizer authorizer.Authorizer
	// Drained closes when the server has answered its last request; plugins end their work then.
	Drained <-chan struct{}
}

// plugin is one plugin of the list.
type plugin struct {
	name string
	// off plugins run only when they are enabled.
	off   bool
	build func() (admission.Interface, error)
}

// plugins run in this order, first all that change a request, then all that only judge it. It is upstream's order. A plugin
// whose informers watch a kind that this server does not serve must not be here: it would never be ready.
var plugins = []plugin{
	{name: lifecycle.PluginName, build: func() (admission.Interface, error) {
		return lifecycle.NewLifecycle(sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic))
	}},
	{name: limitranger.Name, build: simple(limitranger.New)},
	{name: serviceaccount.Name, build: simple(serviceaccount.New)},
	// Off upstream, but kubeadm turns it on, and without it the Node authorizer is half a fence.
	{name: noderestriction.Name, build: simple(noderestriction.New)},
	{name: taintnodesbycondition.Name, build: simple(taintnodesbycondition.New)},
	{name: alwayspullimages.Name, off: true, build: simple(alwayspullimages.New)},
	{name: podsecurity.Name, build: simple(podsecurity.New)},
	{name: priority.Name, build: simple(priority.New)},
	{name: defaulttolerationseconds.Name, build: simple(defaulttolerationseconds.New)},
	{name: denyserviceexternalips.Name, off: true, build: simple(denyserviceexternalips.New)},
	{name: podtopologylabels.Name, build: simple(podtopologylabels.New)},
	// Last, so that nothing is counted which another plugin then refuses.
	{name: resourcequota.Name, build: resourcequota.New},
}

func simple(f func() admission.Interface) func() (admission.Interface, error) {
	return func() (admission.Interface, error) { return f(), nil }
}

// elsewhere are upstream's plugins that are not here. To disable one is no mistake, to enable one is an error.
var elsewhere = sets.New(
	"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceExists", "LimitPodHardAntiAffinityTopology", "ImagePolicyWebhook",
	"PodNodeSelector", "PodTolerationRestriction", "EventRateLimit", "ExtendedResourceToleration", "DefaultStorageClass",
	"StorageObjectInUseProtection", "PodGroupProtection", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize",
	"RuntimeClass", "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction",
	"DefaultIngressClass", "PodGroupWorkloadExists", "NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator",
	"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "AlwaysDeny",
)

// New returns the chain of the enabled plugins.
func New(c Config) (admission.Interface, error) {
	names, err := enabled(c.Enable, c.Disable)
	if err != nil {
		return nil, err
	}
	registered := admission.NewPlugins()
	for _, p := range plugins {
		registered.Register(p.name, func(io.Reader) (admission.Interface, error) { return p.build() })
	}
	initialize := initializer.New(c.Client, nil, c.Informers, c.Authorizer, utilfeature.DefaultFeatureGate, nil, c.Drained, nil)
	chain, err := registered.NewFromPlugins(names, unconfigured{}, initialize, admission.DecoratorFunc(admissionmetrics.WithControllerMetrics))
	if err != nil {
		return nil, fmt.Errorf("building admission plugins: %w", err)
	}
	return admissionmetrics.WithStepMetrics(chain), nil
}

// enabled returns the names of the plugins that run, in order.
func enabled(enable, disable []string) ([]string, error) {
	known := sets.New[string]()
	for _, p := range plugins {
		known.Insert(p.name)
	}
	for _, name := range enable {
		switch {
		case elsewhere.Has(name):
			return nil, fmt.Errorf("enable-admission-plugins plugin %q is not supported", name)
		case !known.Has(name):
			return nil, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name)
		}
	}
	for _, name := range disable {
		if !known.Has(name) && !elsewhere.Has(name) {
			return nil, fmt.Errorf("disable-admission-plugins plugin %q is unknown", name)
		}
	}
	if both := sets.List(sets.New(enable...).Intersection(sets.New(disable...))); len(both) > 0 {
		return nil, fmt.Errorf("%s in enable-admission-plugins and disable-admission-plugins overlapped", strings.Join(both, ", "))
	}
	var names []string
	for _, p := range plugins {
		if slices.Contains(enable, p.name) || !p.off && !slices.Contains(disable, p.name) {
			names = append(names, p.name)
		}
	}
	return names, nil
}

// unconfigured has no configuration files for plugins.
type unconfigured struct{}

func (unconfigured) ConfigFor(string) (io.Reader, error) { return nil, nil }
