// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package prioritylevelconfiguration_test

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"minik8s.io/minik8s/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	type level = flowcontrolv1.PriorityLevelConfiguration
	invalid := func(name, field string, mutate func(*level)) registrytest.Invalid[*level] {
		return registrytest.Invalid[*level]{Name: name, Field: field, Mutate: mutate}
	}
	queuing := func(q flowcontrolv1.QueuingConfiguration) func(*level) {
		return func(p *level) { p.Spec.Limited.LimitResponse.Queuing = &q }
	}
	const limited, queues = "spec.limited", "spec.limited.limitResponse.queuing"
	registrytest.Run(t, prioritylevelconfiguration.Resource, registrytest.Case[*level]{
		AddToScheme: flowcontrolv1.AddToScheme,
		Valid: func() *level {
			return &level{
				ObjectMeta: metav1.ObjectMeta{Name: "p"},
				Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
					Type: flowcontrolv1.PriorityLevelEnablementLimited,
					Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
						LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{}},
					},
				},
			}
		},
		Update: func(p *level) { p.Spec.Limited.NominalConcurrencyShares = new(int32(0)) },
		StatusUpdate: func(p *level) {
			p.Status.Conditions = []flowcontrolv1.PriorityLevelConfigurationCondition{{Type: "Odd", Status: "True"}}
		},
		Invalid: []registrytest.Invalid[*level]{
			invalid("no type", "spec.type", func(p *level) { p.Spec.Type = "" }),
			invalid("unknown type", "spec.type", func(p *level) { p.Spec.Type = "Free" }),
			invalid("another exempt level", "spec.type", func(p *level) { p.Spec.Type, p.Spec.Limited = "Exempt", nil }),
			invalid("exempt is limited", "spec.type", func(p *level) { p.Name = "exempt" }),
			invalid("both", "spec.exempt", func(p *level) { p.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{} }),
			invalid("no limits", limited, func(p *level) { p.Spec.Limited = nil }),
			invalid("exempt with limits", limited, func(p *level) { p.Name, p.Spec.Type = "exempt", "Exempt" }),
			invalid("negative shares", limited+".nominalConcurrencyShares", func(p *level) { p.Spec.Limited.NominalConcurrencyShares = new(int32(-1)) }),
			invalid("lends more than all", limited+".lendablePercent", func(p *level) { p.Spec.Limited.LendablePercent = new(int32(101)) }),
			invalid("negative borrowing", limited+".borrowingLimitPercent", func(p *level) { p.Spec.Limited.BorrowingLimitPercent = new(int32(-1)) }),
			invalid("no response", limited+".limitResponse.type", func(p *level) { p.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{} }),
			invalid("unknown response", limited+".limitResponse.type", func(p *level) { p.Spec.Limited.LimitResponse.Type = "Wait" }),
			invalid("reject with queues", queues, func(p *level) { p.Spec.Limited.LimitResponse.Type = "Reject" }),
			invalid("queue without queues", queues, func(p *level) { p.Spec.Limited.LimitResponse.Queuing = nil }),
			invalid("length", queues+".queueLengthLimit", queuing(flowcontrolv1.QueuingConfiguration{QueueLengthLimit: -1})),
			invalid("no queues", queues+".queues", queuing(flowcontrolv1.QueuingConfiguration{Queues: -1})),
			invalid("many queues", queues+".queues", queuing(flowcontrolv1.QueuingConfiguration{Queues: 10_000_001, HandSize: 1})),
			invalid("hand", queues+".handSize", queuing(flowcontrolv1.QueuingConfiguration{HandSize: -1})),
			invalid("hand above queues", queues+".handSize", queuing(flowcontrolv1.QueuingConfiguration{HandSize: 9, Queues: 8})),
			invalid("entropy", queues+".handSize", queuing(flowcontrolv1.QueuingConfiguration{HandSize: 10, Queues: 1000})),
			invalid("annotation", "metadata.annotations", func(p *level) {
				p.Annotations = map[string]string{flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey: ""}
			}),
			invalid("mandatory name", "spec", func(p *level) { p.Name = "catch-all" }),
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*level]{{
			Name: "lends more than all", Field: "spec.exempt.lendablePercent",
			From:   func(p *level) { *p = *bootstrap.MandatoryPriorityLevelConfigurationExempt.DeepCopy() },
			Mutate: func(p *level) { p.Spec.Exempt.LendablePercent = new(int32(101)) },
		}},
		Row: []any{"p", "Limited", 30, 64, 8, 50},
	})
}
