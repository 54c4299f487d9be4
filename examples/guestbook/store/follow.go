// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// follow copies the leader's journal until ctx ends. A leader that does not answer is asked again after a second.
func follow(ctx context.Context, leader string, into *journal) {
	client := &http.Client{Timeout: longPoll + 5*time.Second}
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
		}
		pause := time.Duration(0)
		if err := copyNext(ctx, client, leader, into); err != nil && ctx.Err() == nil {
			log.Printf("following the leader: %v", err)
			pause = time.Second
		}
		retry.Reset(pause)
	}
}

// copyNext asks for what follows and adds it.
func copyNext(ctx context.Context, client *http.Client, leader string, into *journal) error {
	id, next := into.position()
	query := url.Values{"journal": {id}, "next": {strconv.Itoa(next)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, leader+"/v1/journal?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the leader answers %s", response.Status)
	}
	var b Batch
	if err := json.NewDecoder(response.Body).Decode(&b); err != nil {
		return err
	}
	into.apply(b, id, next)
	return nil
}
