// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is the list of the admission plugins in the order in which they run; a new one is a folder here and a
// line in plugins. See https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/.
package admission

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	webhookinit "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiserverv1alpha1 "k8s.io/apiserver/pkg/apis/apiserver/v1alpha1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/compatibility"

	"minik8s.io/minik8s/pkg/apiserver/admission/alwayspullimages"
	"minik8s.io/minik8s/pkg/apiserver/admission/certificateapproval"
	"minik8s.io/minik8s/pkg/apiserver/admission/certificatesigning"
	"minik8s.io/minik8s/pkg/apiserver/admission/certificatesubjectrestriction"
	"minik8s.io/minik8s/pkg/apiserver/admission/clustertrustbundleattest"
	"minik8s.io/minik8s/pkg/apiserver/admission/defaultingressclass"
	"minik8s.io/minik8s/pkg/apiserver/admission/defaultstorageclass"
	"minik8s.io/minik8s/pkg/apiserver/admission/defaulttolerationseconds"
	"minik8s.io/minik8s/pkg/apiserver/admission/denyserviceexternalips"
	"minik8s.io/minik8s/pkg/apiserver/admission/eventratelimit"
	"minik8s.io/minik8s/pkg/apiserver/admission/extendedresourcetoleration"
	"minik8s.io/minik8s/pkg/apiserver/admission/imagepolicywebhook"
	"minik8s.io/minik8s/pkg/apiserver/admission/limitpodhardantiaffinitytopology"
	"minik8s.io/minik8s/pkg/apiserver/admission/limitranger"
	"minik8s.io/minik8s/pkg/apiserver/admission/mutatingwebhook"
	"minik8s.io/minik8s/pkg/apiserver/admission/namespaceautoprovision"
	"minik8s.io/minik8s/pkg/apiserver/admission/namespaceexists"
	"minik8s.io/minik8s/pkg/apiserver/admission/nodedeclaredfeaturevalidator"
	"minik8s.io/minik8s/pkg/apiserver/admission/noderestriction"
	"minik8s.io/minik8s/pkg/apiserver/admission/ownerreferencespermissionenforcement"
	"minik8s.io/minik8s/pkg/apiserver/admission/persistentvolumeclaimresize"
	"minik8s.io/minik8s/pkg/apiserver/admission/podgroupprotection"
	"minik8s.io/minik8s/pkg/apiserver/admission/podnodeselector"
	"minik8s.io/minik8s/pkg/apiserver/admission/podresizevalidator"
	"minik8s.io/minik8s/pkg/apiserver/admission/podsecurity"
	"minik8s.io/minik8s/pkg/apiserver/admission/podtolerationrestriction"
	"minik8s.io/minik8s/pkg/apiserver/admission/podtopologylabels"
	"minik8s.io/minik8s/pkg/apiserver/admission/priority"
	"minik8s.io/minik8s/pkg/apiserver/admission/resourcequota"
	"minik8s.io/minik8s/pkg/apiserver/admission/runtimeclass"
	"minik8s.io/minik8s/pkg/apiserver/admission/serviceaccount"
	"minik8s.io/minik8s/pkg/apiserver/admission/storageobjectinuseprotection"
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
	// Dynamic and RESTMapper find the parameters of policies.
	Dynamic    dynamic.Interface
	RESTMapper meta.RESTMapper
	// Authorizer is asked by plugins that depend on what the user may do.
	Authorizer authorizer.Authorizer
	// Services and WebhookAuthentication say how webhooks are reached.
	Services              webhook.ServiceResolver
	WebhookAuthentication webhook.AuthenticationInfoResolverWrapper
	// File configures plugins (an AdmissionConfiguration); may be empty.
	File string
	// TolerationSeconds is for how long pods tolerate nodes that fail, if they do not say it; nil: for 300 seconds.
	TolerationSeconds *defaulttolerationseconds.Seconds
	// Groups are the API groups that are served: plugins that need another one do not run.
	Groups sets.Set[string]
	// ServerID names this server among others of the cluster, EffectiveVersion says which version's behaviour it has.
	ServerID         string
	EffectiveVersion compatibility.EffectiveVersion
	// Drained closes when the server has answered its last request; plugins end their work then.
	Drained <-chan struct{}
}

// plugin is one plugin of the list.
type plugin struct {
	name string
	// off plugins run only when they are enabled.
	off bool
	// group is one without which the plugin cannot run; may be empty.
	group string
	// build makes the plugin by its configuration, which is nil if there is none.
	build func(config io.Reader) (admission.Interface, error)
}

// plugins run in this order, first all that change a request, then all that only judge it. It is upstream's order. A plugin
// whose informers watch a kind that this server does not serve must not be here: it would never be ready.
var plugins = []plugin{
	{name: namespaceautoprovision.Name, off: true, build: simple(namespaceautoprovision.New)},
	{name: lifecycle.PluginName, build: unconfigured(func() (admission.Interface, error) {
		return lifecycle.NewLifecycle(sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic))
	})},
	{name: namespaceexists.Name, off: true, build: simple(namespaceexists.New)},
	{name: limitpodhardantiaffinitytopology.Name, off: true, build: simple(limitpodhardantiaffinitytopology.New)},
	{name: limitranger.Name, build: simple(limitranger.New)},
	{name: serviceaccount.Name, build: simple(serviceaccount.New)},
	// Off upstream, but kubeadm turns it on, and without it the Node authorizer is half a fence.
	{name: noderestriction.Name, build: simple(noderestriction.New)},
	{name: taintnodesbycondition.Name, build: simple(taintnodesbycondition.New)},
	{name: alwayspullimages.Name, off: true, build: simple(alwayspullimages.New)},
	{name: imagepolicywebhook.Name, off: true, build: imagepolicywebhook.New},
	{name: podsecurity.Name, build: podsecurity.New},
	{name: podnodeselector.Name, off: true, build: podnodeselector.New},
	{name: priority.Name, build: simple(priority.New)},
	{name: defaulttolerationseconds.Name, build: simple(defaulttolerationseconds.New)},
	{name: podtolerationrestriction.Name, off: true, build: podtolerationrestriction.New},
	{name: eventratelimit.Name, off: true, build: eventratelimit.New},
	{name: extendedresourcetoleration.Name, off: true, build: simple(extendedresourcetoleration.New)},
	{name: defaultstorageclass.Name, group: storagev1.GroupName, build: simple(defaultstorageclass.New)},
	{name: storageobjectinuseprotection.Name, build: simple(storageobjectinuseprotection.New)},
	{name: podgroupprotection.Name, build: simple(podgroupprotection.New)},
	{name: ownerreferencespermissionenforcement.Name, off: true, build: simple(ownerreferencespermissionenforcement.New)},
	{name: persistentvolumeclaimresize.Name, group: storagev1.GroupName, build: simple(persistentvolumeclaimresize.New)},
	{name: runtimeclass.Name, group: nodev1.GroupName, build: simple(runtimeclass.New)},
	{name: certificateapproval.Name, build: simple(certificateapproval.New)},
	{name: certificatesigning.Name, build: simple(certificatesigning.New)},
	{name: clustertrustbundleattest.Name, build: simple(clustertrustbundleattest.New)},
	{name: certificatesubjectrestriction.Name, build: simple(certificatesubjectrestriction.New)},
	{name: defaultingressclass.Name, group: networkingv1.GroupName, build: simple(defaultingressclass.New)},
	{name: denyserviceexternalips.Name, off: true, build: simple(denyserviceexternalips.New)},
	{name: podtopologylabels.Name, build: simple(podtopologylabels.New)},
	{name: nodedeclaredfeaturevalidator.Name, build: simple(nodedeclaredfeaturevalidator.New)},
	{name: podresizevalidator.Name, build: simple(podresizevalidator.New)},
	{name: mutatingpolicy.PluginName, group: admissionregistrationv1.GroupName, build: configured(mutatingpolicy.NewPlugin)},
	{name: mutatingwebhook.Name, group: admissionregistrationv1.GroupName, build: configured(mutatingwebhook.New)},
	{name: validatingpolicy.PluginName, group: admissionregistrationv1.GroupName, build: configured(validatingpolicy.NewPlugin)},
	{name: validatingwebhook.PluginName, group: admissionregistrationv1.GroupName, build: configured(validatingwebhook.NewValidatingAdmissionWebhook)},
	// Last, so that nothing is counted which another plugin then refuses.
	{name: resourcequota.Name, build: resourcequota.New},
}

func simple(f func() admission.Interface) func(io.Reader) (admission.Interface, error) {
	return unconfigured(func() (admission.Interface, error) { return f(), nil })
}

// unconfigured makes a plugin that has no configuration, and refuses to drop one that it is given.
func unconfigured(f func() (admission.Interface, error)) func(io.Reader) (admission.Interface, error) {
	return func(config io.Reader) (admission.Interface, error) {
		if config != nil {
			return nil, errors.New("this plugin has no configuration, but one was given")
		}
		return f()
	}
}

func configured[P admission.Interface](f func(io.Reader) (P, error)) func(io.Reader) (admission.Interface, error) {
	return func(config io.Reader) (admission.Interface, error) { return f(config) }
}

// elsewhere are upstream's plugins that are not here. To disable one is no mistake, to enable one is an error.
var elsewhere = sets.New("AlwaysAdmit", "AlwaysDeny")

// New returns the chain of the enabled plugins.
func New(c Config) (admission.Interface, error) {
	names, err := enabled(c.Enable, c.Disable)
	if err != nil {
		return nil, err
	}
	registered := admission.NewPlugins()
	for _, p := range plugins {
		if p.group != "" && !c.Groups.Has(p.group) {
			names = slices.DeleteFunc(names, func(name string) bool { return name == p.name })
			continue
		}
		registered.Register(p.name, p.build)
	}
	configuration, err := admission.ReadAdmissionConfiguration(names, c.File, configScheme())
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of admission plugins: %w", err)
	}
	initialize := admission.PluginInitializers{
		initializer.NewAPIServerIDInitializer(c.ServerID),
		initializer.New(c.Client, c.Dynamic, c.Informers, c.Authorizer, utilfeature.DefaultFeatureGate, c.EffectiveVersion, c.Drained, c.RESTMapper),
		webhookinit.NewPluginInitializer(c.WebhookAuthentication, c.Services),
		exclude{},
		*cmp.Or(c.TolerationSeconds, &defaulttolerationseconds.Default),
	}
	chain, err := registered.NewFromPlugins(names, configuration, initialize, admission.DecoratorFunc(admissionmetrics.WithControllerMetrics))
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

// configScheme has the kinds of configuration files.
func configScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(apiserverapi.AddToScheme(s))
	utilruntime.Must(apiserverv1alpha1.AddToScheme(s))
	utilruntime.Must(apiserverv1.AddToScheme(s))
	return s
}

// excluded are questions that the cluster lives on, and which policies must not answer. As upstream's.
var excluded = []schema.GroupResource{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// exclude tells the plugins that run policies.
type exclude struct{}

func (exclude) Initialize(p admission.Interface) {
	if wants, ok := p.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(excluded)
	}
}
