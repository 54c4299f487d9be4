// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"minik8s.io/minik8s/pkg/imagesource"
)

// serveImages makes what gives nodes on other machines the images of this one.
func (r *runner) serveImages() (http.Handler, error) {
	client, err := r.client("minik8s", "kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	return imagesource.NewHandler(func() imagesource.Images {
		if k := r.machine.Load(); k != nil {
			return k
		}
		return nil
	}, client), nil
}

// machinery sets what the configuration says of the API server, and that an image may take longer than other answers.
func (r *runner) machinery(g *genericapiserver.Config) error {
	usual := g.LongRunningFunc
	g.LongRunningFunc = func(request *http.Request, info *apirequest.RequestInfo) bool {
		return info.Path == imagesource.Path || usual(request, info)
	}
	return r.config.APIServer.apply(g)
}
