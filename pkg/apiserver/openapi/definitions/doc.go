// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package definitions holds the generated OpenAPI schemas of all served types; hack/codegen writes it, add a package of
// types there.
package definitions
