// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
)

// Recover makes servers answer that a patch is malformed when the library of strategic merge patches panics on it: on lists
// and objects where it expects keys. Any other panic is logged, and answered by 500.
func Recover(servers ...*genericapiserver.GenericAPIServer) {
	for _, s := range servers {
		s.Handler.GoRestfulContainer.RecoverHandler(recovered)
	}
}

// recovered answers instead of a handler that has panicked. The reason has the stack, as the machinery runs what may panic in
// a goroutine of its own.
func recovered(reason any, w http.ResponseWriter) {
	text := fmt.Sprint(reason)
	err := apierrors.NewGenericServerResponse(http.StatusInternalServerError, "", schema.GroupResource{}, "", "", 0, false)
	if strings.Contains(text, "k8s.io/apimachinery/pkg/util/strategicpatch.") {
		first, _, _ := strings.Cut(text, "\n")
		err = apierrors.NewBadRequest("the strategic merge patch has a list or an object where a key is expected: " + first)
	} else {
		klog.ErrorS(nil, "Observed a panic in a request", "reason", text)
	}
	// What the client has asked for is not known here.
	responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Version: "v1"}, w, &http.Request{URL: &url.URL{}, Header: http.Header{}})
}
