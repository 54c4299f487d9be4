// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

func grpcCall(context.Context, map[string]any, engine.Action) (any, error) {
	return nil, engine.NewError(engine.Configuration, "calls of gRPC are not supported yet")
}
