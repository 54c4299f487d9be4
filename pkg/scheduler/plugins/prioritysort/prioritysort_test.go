// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package prioritysort

import (
	"testing"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }
