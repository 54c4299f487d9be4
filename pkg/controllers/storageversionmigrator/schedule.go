// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"cmp"
	"slices"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// turn returns which of the migrations of one resource begins now: the oldest that has not run, as long as none runs. One that
// has ended is still in the way until it is marked as completed: what it then writes into the definition would be taken for the
// end of the next one, and with the generation at which that began, for all objects being stored in the version of today.
func turn(same []migrationv1.StorageVersionMigration) *migrationv1.StorageVersionMigration {
	var waiting []*migrationv1.StorageVersionMigration
	for i := range same {
		m := &same[i]
		switch {
		case isRunning(m):
			return nil
		case hasEnded(m):
		default:
			waiting = append(waiting, m)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return slices.MinFunc(waiting, func(a, b *migrationv1.StorageVersionMigration) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

func isRunning(m *migrationv1.StorageVersionMigration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(migrationv1.MigrationRunning))
}

func hasEnded(m *migrationv1.StorageVersionMigration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(migrationv1.MigrationSucceeded)) ||
		meta.IsStatusConditionTrue(m.Status.Conditions, string(migrationv1.MigrationFailed))
}
