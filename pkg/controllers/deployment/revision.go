// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Annotations that connect a Deployment with its ReplicaSets; kubectl rollout reads the first.
const (
	RevisionAnnotation        = "deployment.kubernetes.io/revision"
	RevisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	DesiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	MaxReplicasAnnotation     = "deployment.kubernetes.io/max-replicas"
)

// maxHistoryLength bounds the revision history annotation, in characters.
const maxHistoryLength = 2000

// notCopied are annotations of a Deployment that its ReplicaSets do not get.
var notCopied = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true,
	RevisionAnnotation:                 true,
	RevisionHistoryAnnotation:          true,
	DesiredReplicasAnnotation:          true,
	MaxReplicasAnnotation:              true,
	appsv1.DeprecatedRollbackTo:        true,
}

// sameTemplate compares pod templates without regard to the hash label.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(a, b)
}

// findNew returns the oldest ReplicaSet with the Deployment's template, nil when there is none yet.
func findNew(d *appsv1.Deployment, all []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	for _, rs := range byAge(all) {
		if sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			return rs
		}
	}
	return nil
}

// byAge returns the ReplicaSets sorted from the oldest to the youngest.
func byAge(all []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.SortedStableFunc(slices.Values(all), func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// without returns all but rs.
func without(all []*appsv1.ReplicaSet, rs *appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var rest []*appsv1.ReplicaSet
	for _, other := range all {
		if rs == nil || other.UID != rs.UID {
			rest = append(rest, other)
		}
	}
	return rest
}

// revision is the number in the revision annotation; 0 when it is missing or no number.
func revision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// nextRevision is one more than the highest revision of the old ReplicaSets.
func nextRevision(old []*appsv1.ReplicaSet) int64 {
	var highest int64
	for _, rs := range old {
		highest = max(highest, revision(rs))
	}
	return highest + 1
}

// annotateNew brings the annotations of the new ReplicaSet up to date: those of the Deployment, the revision and, when an
// old template comes back and so gets a new revision, the history of the revisions it had. It reports a change.
func annotateNew(d *appsv1.Deployment, rs *appsv1.ReplicaSet, next int64) bool {
	before := maps.Clone(rs.Annotations)
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	for key, value := range d.Annotations {
		if !notCopied[key] {
			rs.Annotations[key] = value
		}
	}
	old, had := rs.Annotations[RevisionAnnotation]
	oldNumber, err := strconv.ParseInt(old, 10, 64)
	if had && err != nil && old != "" {
		// Somebody wrote nonsense there; leave it to them, as upstream does.
		return !maps.Equal(before, rs.Annotations)
	}
	if oldNumber < next {
		rs.Annotations[RevisionAnnotation] = strconv.FormatInt(next, 10)
		if had {
			rs.Annotations[RevisionHistoryAnnotation] = appendHistory(rs.Annotations[RevisionHistoryAnnotation], old)
		}
	}
	return !maps.Equal(before, rs.Annotations)
}

// appendHistory adds a revision to the comma separated history and drops the oldest ones that do not fit.
func appendHistory(history, revision string) string {
	if history == "" {
		return revision
	}
	items := append(strings.Split(history, ","), revision)
	for len(items) > 1 && len(strings.Join(items, ",")) > maxHistoryLength {
		items = items[1:]
	}
	return strings.Join(items, ",")
}

// annotateSize records what the Deployment wanted when it sized rs, so that a later scaling of the Deployment can be told
// from a rollout. It reports a change.
func annotateSize(rs *appsv1.ReplicaSet, desired, maximum int32) bool {
	want := map[string]string{
		DesiredReplicasAnnotation: strconv.Itoa(int(desired)),
		MaxReplicasAnnotation:     strconv.Itoa(int(maximum)),
	}
	changed := false
	for key, value := range want {
		if rs.Annotations[key] != value {
			if rs.Annotations == nil {
				rs.Annotations = map[string]string{}
			}
			rs.Annotations[key] = value
			changed = true
		}
	}
	return changed
}

// annotatedNumber reads one of the size annotations. A size below nothing is nonsense that somebody wrote there.
func annotatedNumber(rs *appsv1.ReplicaSet, key string) (int32, bool) {
	n, err := strconv.ParseUint(rs.Annotations[key], 10, 31)
	return int32(n), err == nil
}

// newReplicaSet returns the ReplicaSet for the Deployment's present template, without replicas.
func newReplicaSet(d *appsv1.Deployment, next int64) *appsv1.ReplicaSet {
	hash := pods.TemplateHash(&d.Spec.Template, d.Status.CollisionCount)
	template := *d.Spec.Template.DeepCopy()
	template.Labels = withLabel(template.Labels, hash)
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels = withLabel(selector.MatchLabels, hash)
	base := d.Name[:min(len(d.Name), validation.DNS1123SubdomainMaxLength-len(hash)-1)]
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            base + "-" + hash,
			Namespace:       d.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
			Labels:          maps.Clone(template.Labels),
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        new(int32(0)),
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}
	annotateNew(d, rs, next)
	annotateSize(rs, replicas(d), replicas(d)+maxSurge(d))
	return rs
}

func withLabel(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return labels
}

// expired returns the old ReplicaSets that revisionHistoryLimit has no room for, oldest revision first. One that still
// has or may still have pods stays.
func expired(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	if d.Spec.RevisionHistoryLimit == nil || *d.Spec.RevisionHistoryLimit == math.MaxInt32 {
		return nil
	}
	alive := slices.DeleteFunc(slices.Clone(old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	slices.SortStableFunc(alive, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(revision(a), revision(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	surplus := len(alive) - int(*d.Spec.RevisionHistoryLimit)
	if surplus <= 0 {
		return nil
	}
	return slices.DeleteFunc(alive[:surplus], func(rs *appsv1.ReplicaSet) bool {
		return rs.Status.Replicas != 0 || size(rs) != 0 || rs.Generation > rs.Status.ObservedGeneration
	})
}
