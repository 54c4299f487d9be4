// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WebhooksPath is where webhooks of a function are: POST WebhooksPath + NAME.
const WebhooksPath = "/.minik8s/webhooks/"

// WebhookHeader tells the function by which webhook a request has come; no other has it.
const WebhookHeader = "X-Minik8s-Webhook"

// MaxWebhookBytes is how large a request to a webhook may be: it is read before it is known who has sent it.
const MaxWebhookBytes = 1 << 20

// bodyPatience is how long a request may take to come that is read before anything is done with it.
const bodyPatience = 30 * time.Second

// What a webhook refuses.
var (
	ErrNoWebhook = errors.New("the function has no such webhook")
	ErrUnproved  = errors.New("the request does not prove that its sender knows the webhook's secret")
)

// webhooks hands requests to webhooks on to next, as requests to "/", if who sends them may do so.
func (a *Activator) webhooks(name types.NamespacedName, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delete(r.Header, WebhookHeader)
		webhook, found := strings.CutPrefix(r.URL.Path, WebhooksPath)
		if !found {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			refuse(w, http.StatusMethodNotAllowed, "a webhook takes POST")
			return
		}
		body, ok := a.whole(w, r, MaxWebhookBytes)
		if !ok {
			return
		}
		if err := a.config.Webhook(r.Context(), name, webhook, r.Header, body); err != nil {
			answerWebhook(w, webhook, err)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set(WebhookHeader, webhook)
		r.URL.Path, r.URL.RawPath, r.RequestURI = "/", "", "/"
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		next.ServeHTTP(w, r)
	})
}

// whole reads the body of a request, whose sender is not known yet and must not take for ever. If it cannot, it has said why.
func (a *Activator) whole(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, ok bool) {
	body, err := readWithin(w, r, limit, a.bodyPatience)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, http.StatusRequestTimeout, "the request did not come in time")
	case err != nil:
		answerError(w, r, err)
	}
	return body, err == nil
}

func readWithin(w http.ResponseWriter, r *http.Request, limit int64, patience time.Duration) ([]byte, error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, err
	}
	return body, control.SetReadDeadline(time.Time{})
}

// answerWebhook says no more than that to somebody who is not known, and logs nothing that anybody could have logged at will.
func answerWebhook(w http.ResponseWriter, webhook string, err error) {
	switch {
	case errors.Is(err, ErrNoWebhook):
		refuse(w, http.StatusNotFound, ErrNoWebhook.Error())
	case errors.Is(err, ErrUnproved):
		refuse(w, http.StatusUnauthorized, err.Error())
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("webhook %s cannot be used now: events of the function say why", webhook))
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeError(w, message)
}
