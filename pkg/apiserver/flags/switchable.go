// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/component-base/featuregate"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// switchable are the feature gates that may have either value: the published libraries, which this server is made of, act by
// them wherever upstream does, or this project's own code does. A gate that a library brings and that is in none of the lists makes a test fail: look up
// whether the code that it switches is in the library or in upstream's server, and put it here or into unhonoured.
var switchable = []featuregate.Feature{
	"APIResponseCompression", "APIServingWithRoutine", "AllowParsingUserUIDFromCertAuth",
	"AllowUnsafeMalformedObjectDeletion", "CRDObservedGenerationTracking",
	"ComponentFlagz", "ComponentStatusz",
	"ConcurrentWatchObjectDecode", "ConsistentListFromCacheSkipTimeoutFallback", "ConstrainedImpersonation", "ContextualLogging",
	"DeclarativeValidationBeta", "DetectCacheInconsistency", "EtcdRangeStream", "ExcludeAdmissionWebhookVirtualResources", "KMSv1",
	"ListFromCacheSnapshot", "LoggingAlphaOptions", "LoggingBetaOptions", "ManifestBasedAdmissionControlConfig",
	"MutatingAdmissionPolicy", "NativeHistograms", "ShardedListAndWatch", "SizeBasedListCostEstimate", "StorageVersionHash",
	"StructuredAuthenticationConfigurationEgressSelector", "StructuredAuthenticationConfigurationJWKSMetrics",
	"UnauthenticatedHTTP2DOSMitigation", "WatchList", "WatchListCompression", "WebhookRoundTripLoadBalancing",
	// By these this project's own code acts.
	feature.GenericWorkload,
	// These switch others, which are judged one by one.
	"AllAlpha", "AllBeta",
}

// unhonoured are the gates of the libraries of which this server has one side only: why they keep their default.
var unhonoured = map[featuregate.Feature]string{
	"APIServerIdentity":                       "servers always tell by a Lease that they live",
	"APIServerWebhookAuthenticationToken":     "tokens are not bound to webhooks",
	"CBORServingAndStorage":                   "CBOR is neither served nor stored",
	"CoordinatedLeaderElection":               "coordinated leader election is not served",
	"OpenAPIEnums":                            "enumerations are always published",
	"RemoteRequestHeaderUID":                  "the UID of a remote user is always published",
	"StorageVersionAPI":                       "the API group internal.apiserver.k8s.io is not served",
	"TokenRequestServiceAccountUIDValidation": "the UID in a token request is always checked",
	"UnknownVersionInteroperabilityProxy":     "API servers of a cluster do not pass requests on to one another",
}

// CheckGates refuses gates that were given another value than their default although nothing here depends on them: whoever
// switches one expects something, which may be a protection. To call after the gates were set.
func CheckGates(gates featuregate.MutableFeatureGate) error {
	specs, kept := gates.GetAll(), keep()
	for _, name := range slices.Sorted(maps.Keys(kept)) { // one, always the same, is enough to go on
		if spec, known := specs[name]; known && gates.Enabled(name) != spec.Default {
			return fmt.Errorf("feature gate %s=%t is not supported: %s", name, gates.Enabled(name), kept[name])
		}
	}
	return nil
}

// keep are all gates that keep their default, and why.
func keep() map[featuregate.Feature]string {
	all := map[featuregate.Feature]string{}
	for _, f := range feature.Upstream {
		for _, name := range f.Names {
			all[featuregate.Feature(name)] = "what it switches has only this side here"
		}
	}
	maps.Copy(all, unhonoured)
	return all
}
