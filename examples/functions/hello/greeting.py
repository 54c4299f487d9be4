# Copyright 2026 The minik8s Authors
# SPDX-License-Identifier: Apache-2.0
"""A module beside the handler's."""


def of(name):
    return "Hello, %s!" % name
