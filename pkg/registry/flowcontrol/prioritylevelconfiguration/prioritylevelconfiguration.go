// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package prioritylevelconfiguration serves PriorityLevelConfigurations: how many requests of a priority level run at a
// time, and how the others wait. Touch it when their rules change.
package prioritylevelconfiguration

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
)

var queuingDocs = flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()

// Resource describes prioritylevelconfigurations.
var Resource = &registry.Resource[*flowcontrolv1.PriorityLevelConfiguration]{
	Kind:          flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"),
	Name:          "prioritylevelconfigurations",
	ClusterScoped: true,
	New:           func() *flowcontrolv1.PriorityLevelConfiguration { return &flowcontrolv1.PriorityLevelConfiguration{} },
	NewList:       func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
	WholeUpdate:   true,
	Default:       setDefaults,
	Validate:      validate,
	Spec:          func(p *flowcontrolv1.PriorityLevelConfiguration) any { return p.Spec },
	Status: &registry.Status[*flowcontrolv1.PriorityLevelConfiguration]{
		KeepMetadata:     true,
		PrepareForUpdate: keepMetadata,
		Validate:         validateStatus,
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Type", "string", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
		registry.Column("NominalConcurrencyShares", "string", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
		registry.Column("Queues", "string", queuingDocs["queues"]),
		registry.Column("HandSize", "string", queuingDocs["handSize"]),
		registry.Column("QueueLengthLimit", "string", queuingDocs["queueLengthLimit"]),
		registry.AgeColumn,
	},
	Row: row,
}

func setDefaults(p *flowcontrolv1.PriorityLevelConfiguration) {
	if l := p.Spec.Limited; l != nil {
		orDefault(&l.NominalConcurrencyShares, 30)
		orDefault(&l.LendablePercent, 0)
		if q := l.LimitResponse.Queuing; q != nil {
			if q.HandSize == 0 {
				q.HandSize = 8
			}
			if q.Queues == 0 {
				q.Queues = 64
			}
			if q.QueueLengthLimit == 0 {
				q.QueueLengthLimit = 50
			}
		}
	}
	if e := p.Spec.Exempt; e != nil {
		orDefault(&e.NominalConcurrencyShares, 0)
		orDefault(&e.LendablePercent, 0)
	}
}

func orDefault(p **int32, value int32) {
	if *p == nil {
		*p = new(value)
	}
}

func row(p *flowcontrolv1.PriorityLevelConfiguration) []any {
	const none = "<none>"
	shares, queues, hand, length := any(none), any(none), any(none), any(none)
	if l := p.Spec.Limited; l != nil {
		shares = ptr.Deref(l.NominalConcurrencyShares, 0)
		if q := l.LimitResponse.Queuing; q != nil {
			queues, hand, length = q.Queues, q.HandSize, q.QueueLengthLimit
		}
	}
	return []any{p.Name, string(p.Spec.Type), shares, queues, hand, length, registry.Age(p.CreationTimestamp)}
}

// keepMetadata leaves a status update nothing but the status and its trace in the managed fields.
func keepMetadata(_ context.Context, p, old *flowcontrolv1.PriorityLevelConfiguration) {
	managed := p.ManagedFields
	p.ObjectMeta = old.ObjectMeta
	p.ManagedFields = managed
}
