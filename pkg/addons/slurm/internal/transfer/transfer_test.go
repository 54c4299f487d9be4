// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	errFrom = errors.New("it cannot be read")
	errTo   = errors.New("it cannot be written")
)

func TestPipe(t *testing.T) {
	t.Parallel()
	much := bytes.Repeat([]byte("0123456789"), 100_000)
	writes := func(_ context.Context, w io.Writer) error {
		_, err := w.Write(much)
		return err
	}
	reads := func(_ context.Context, r io.Reader) error {
		got, err := io.ReadAll(r)
		if err == nil && !bytes.Equal(got, much) {
			return errors.New("something else came")
		}
		return err
	}
	hangs := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, tc := range []struct {
		name  string
		from  func(context.Context, io.Writer) error
		to    func(context.Context, io.Reader) error
		want  string
		after time.Duration
	}{
		{"all", writes, reads, "", 0},
		{"half is read", func(_ context.Context, w io.Writer) error {
			_, _ = w.Write(much[:500])
			return errFrom
		}, func(_ context.Context, r io.Reader) error {
			_, _ = io.Copy(io.Discard, r)
			return nil // what is unpacked may look whole
		}, errFrom.Error(), 0},
		{"half is written", writes, func(_ context.Context, r io.Reader) error {
			_, _ = r.Read(make([]byte, 10))
			return errTo
		}, errTo.Error(), 0},
		{"half is written well", writes, func(context.Context, io.Reader) error { return nil }, "not all was taken", 0},
		{"who reads is stuck", func(ctx context.Context, _ io.Writer) error { return hangs(ctx) }, reads, "nothing came or went for 1m0s", time.Minute},
		{"who writes is stuck", writes, func(ctx context.Context, _ io.Reader) error { return hangs(ctx) }, "nothing came or went for 1m0s", time.Minute},
		{"slow", func(_ context.Context, w io.Writer) error {
			for i := range 10 {
				time.Sleep(50 * time.Second) //nolint:forbidigo // in a bubble, where it costs nothing
				if _, err := w.Write(much[i*100_000 : (i+1)*100_000]); err != nil {
					return err
				}
			}
			return nil
		}, reads, "", 500 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := Pipe(t.Context(), time.Minute, tc.from, tc.to)
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				if took := time.Since(begun); took != tc.after {
					t.Errorf("it took %s, want %s", took, tc.after)
				}
			})
		})
	}
}

func TestTransfers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		transfers := New(2, time.Hour)
		ended := make(chan error, 1)
		go func() { ended <- transfers.Start(ctx) }()
		look := func(name string, want State, wantErr string, do func(context.Context) error) {
			t.Helper()
			synctest.Wait()
			state, err := transfers.Look(types.UID("uid-of-"+name), do)
			if state != want || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
				t.Errorf("%s: %v, %v, want %v, %q", name, state, err, want, wantErr)
			}
		}
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		fails := func(context.Context) error { return errFrom }
		look("a", Running, "", hangs)
		look("a", Running, "", nil)
		look("b", Running, "", fails)
		look("c", Running, "", hangs) // b's place is free, though nobody has asked for b
		look("d", Waiting, "", hangs)
		look("b", Ended, errFrom.Error(), nil)
		if err := transfers.Stop(t.Context(), "uid-of-a"); err != nil {
			t.Error(err)
		}
		if err := transfers.Stop(t.Context(), "uid-of-nobody"); err != nil {
			t.Error(err)
		}
		look("d", Running, "", hangs)
		time.Sleep(time.Hour) //nolint:forbidigo // in a bubble, where it costs nothing
		look("c", Ended, "longer than 1h", nil)
		look("c", Running, "", hangs)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		look("c", Ended, "the process ends", nil)
		look("c", Waiting, "", fails)
	})
}

// A transfer that does not end keeps nobody for longer than they want.
func TestTransfers_StopInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transfers, release := New(1, time.Hour), make(chan struct{})
		if _, err := transfers.Look("a", func(context.Context) error { <-release; return nil }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := transfers.Stop(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		close(release)
		if err := transfers.Stop(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
}
