// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconcile_Rollback(t *testing.T) {
	cause := func(value string) func(*appsv1.ReplicaSet) {
		return func(rs *appsv1.ReplicaSet) { rs.Annotations["cause"] = value }
	}
	tests := []struct {
		name, to  string
		all       []*appsv1.ReplicaSet
		image     string
		event     string
		annotated map[string]string
	}{
		{
			name: "a revision", to: "1", all: []*appsv1.ReplicaSet{replicaSet("a", "one", 1, 0, cause("create")), replicaSet("b", "two", 2, 0), replicaSet("c", "new", 3, 4)},
			image: "one", event: `Normal DeploymentRollback Rolled back deployment "web" to revision 1`, annotated: map[string]string{"cause": "create", RevisionAnnotation: "3"},
		},
		{
			name: "the last", to: "0", all: []*appsv1.ReplicaSet{replicaSet("c", "new", 3, 4), replicaSet("a", "one", 1, 0), replicaSet("b", "two", 2, 0)},
			image: "two", event: `Normal DeploymentRollback Rolled back deployment "web" to revision 2`, annotated: map[string]string{RevisionAnnotation: "3"},
		},
		{
			name: "no last", to: "0", all: []*appsv1.ReplicaSet{replicaSet("c", "new", 3, 4)},
			image: "new", event: "Warning DeploymentRollbackRevisionNotFound Unable to find last revision.", annotated: map[string]string{"team": "a", RevisionAnnotation: "3"},
		},
		{
			name: "not found", to: "2", all: []*appsv1.ReplicaSet{replicaSet("c", "new", 3, 4)},
			image: "new", event: "Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to.",
			annotated: map[string]string{"team": "a", RevisionAnnotation: "3"},
		},
		{
			name: "the present one", to: "3", all: []*appsv1.ReplicaSet{replicaSet("c", "new", 3, 4)},
			image: "new", event: `Warning DeploymentRollbackTemplateUnchanged The rollback revision contains the same template as current deployment "web"`,
			annotated: map[string]string{"team": "a", RevisionAnnotation: "3"},
		},
		{
			name: "nonsense", to: "x", all: []*appsv1.ReplicaSet{replicaSet("c", "new", 3, 4)},
			image: "new", annotated: map[string]string{"team": "a", RevisionAnnotation: "3", appsv1.DeprecatedRollbackTo: "x"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := webDeployment(func(d *appsv1.Deployment) {
				d.Annotations[appsv1.DeprecatedRollbackTo], d.Annotations[RevisionAnnotation] = tt.to, "3"
			})
			builder := controllertest.NewClientBuilder().WithObjects(d).WithStatusSubresource(d)
			for _, rs := range tt.all {
				builder = builder.WithObjects(rs)
			}
			c, events := builder.Build(), record.NewFakeRecorder(5)
			r := reconciler(c)
			r.Events = events
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			var got appsv1.Deployment
			if err := c.Get(t.Context(), request.NamespacedName, &got); err != nil {
				t.Fatal(err)
			}
			if image := got.Spec.Template.Spec.Containers[0].Image; image != tt.image {
				t.Errorf("the image is %q, want %q", image, tt.image)
			}
			if diff := cmp.Diff(tt.annotated, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"app": "web"}, got.Spec.Template.Labels); diff != "" {
				t.Errorf("labels of the template (-want +got):\n%s", diff)
			}
			close(events.Events)
			if event := <-events.Events; event != tt.event {
				t.Errorf("event %q, want %q", event, tt.event)
			}
		})
	}
}
