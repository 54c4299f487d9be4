// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// legible is a body that, where it cannot be read, says so by an answer to the client. The machinery takes whatever reading
// ends with for a failure of its own: half a body, chunks without a length.
type legible struct{ io.ReadCloser }

// checkBody lets the handler see such an error.
func checkBody(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = legible{r.Body}
	}
}

// Read implements io.Reader.
func (l legible) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return n, err
	}
	return n, apierrors.NewBadRequest(fmt.Sprintf("the body of the request cannot be read: %v", err))
}
