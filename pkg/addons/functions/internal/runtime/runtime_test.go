// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/runtime"
	"minik8s.io/minik8s/pkg/addons/functions/internal/sandbox"
)

// server runs the server of a runtime, with the interpreter of this machine, without a cluster; it keeps its code in a folder of the
// test's.
func server(t *testing.T, name v1alpha1.Runtime) (address string) {
	t.Helper()
	settings, err := runtime.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	command := settings[name].Command
	if _, err := exec.LookPath(command[0]); err != nil {
		return "" // the end-to-end tests run it in its image
	}
	port := freePort(t)
	address = net.JoinHostPort("127.0.0.1", port)
	args := append([]string{}, command[1:]...)
	args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "/tmp/function", t.TempDir())
	cmd := exec.CommandContext(context.Background(), command[0], args...)
	cmd.Env = append(os.Environ(), runtime.TokenVariable+"=secret", "PORT="+port)
	var log bytes.Buffer
	cmd.Stderr, cmd.Stdout = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server wrote:\n%s", &log)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := sandbox.Await(ctx, func(ctx context.Context) error { return sandbox.Listens(ctx, address) }); err != nil {
		t.Fatal(err)
	}
	return address
}

// given are the ports that tests have got.
var given sync.Map

// freePort returns one on which nobody listens, and on which no other test will.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err := errors.Join(err, listener.Close()); err != nil {
			t.Fatal(err)
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			return port
		}
	}
}

func load(t *testing.T, address, token string, c sandbox.Code) error {
	t.Helper()
	code, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Load(t.Context(), address, token, code)
}

func post(t *testing.T, address, path string, body io.Reader, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// language is the same function in a language.
type language struct {
	name            v1alpha1.Runtime
	files           map[string][]byte
	broken          map[string][]byte
	failure, raised string
}

var languages = []language{
	{
		name: v1alpha1.Python,
		files: map[string][]byte{
			"func.py":     []byte("import os\nfrom lib import half\n\ndef main(params):\n    if params.get('fail'):\n        raise ValueError('no good')\n    if params.get('cycle'):\n        return {'x': main}\n    return {'got': params, 'env': os.environ.get('WHO'), 'half': half.of(10)}\n"),
			"lib/half.py": []byte("def of(x):\n    return x // 2\n"),
		},
		broken: map[string][]byte{"func.py": []byte("def main(params)\n  pass\n")}, failure: "SyntaxError", raised: "ValueError: no good",
	},
	{
		name: v1alpha1.Node,
		files: map[string][]byte{
			"func.js":     []byte("const half = require('./lib/half');\nexports.main = async (params) => {\n  if (params.fail) throw new Error('no good');\n  if (params.cycle) { const x = {}; x.x = x; return x; }\n  return { got: params, env: process.env.WHO, half: half.of(10) };\n};\n"),
			"lib/half.js": []byte("exports.of = (x) => x / 2;\n"),
		},
		broken: map[string][]byte{"func.js": []byte("exports.main = (\n")}, failure: "SyntaxError", raised: "Error: no good",
	},
}

func TestServers(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(string(l.name), func(t *testing.T) {
			t.Parallel()
			address := server(t, l.name)
			if address == "" {
				return
			}
			if status, body := post(t, address, "/", strings.NewReader("{}")); status != http.StatusServiceUnavailable {
				t.Errorf("without code: %d %s", status, body)
			}
			code := sandbox.Code{Revision: "a", Handler: "func.main", Env: map[string]string{"WHO": "me"}, Files: l.files, TimeoutSeconds: 60}
			if err := load(t, address, "other", code); err == nil || !strings.Contains(err.Error(), "401") {
				t.Errorf("a wrong token: %v", err)
			}
			for range 2 { // a second time changes nothing
				if err := load(t, address, "secret", code); err != nil {
					t.Fatal(err)
				}
			}
			if err := load(t, address, "secret", sandbox.Code{Revision: "b", Handler: "func.main"}); err == nil || !strings.Contains(err.Error(), "409") {
				t.Errorf("another revision: %v", err)
			}
			requests(t, l, address)
		})
	}
}

func requests(t *testing.T, l language, address string) {
	t.Helper()
	large := strings.Repeat("x", 11<<20)
	for _, test := range []struct {
		name, path string
		body       io.Reader
		headers    []string
		status     int
		want       string
	}{
		{"JSON", "/", strings.NewReader(`{"x":1}`), nil, 200, `{"got":{"x":1},"env":"me","half":5}`},
		{"nothing", "/", strings.NewReader(""), nil, 200, `{"got":{},"env":"me","half":5}`},
		{"a query", "/any?x=1", nil, nil, 200, `{"got":{"x":"1"},"env":"me","half":5}`},
		{"no JSON", "/", strings.NewReader("{"), nil, 400, "no JSON"},
		{"in chunks", "/", io.MultiReader(strings.NewReader(`{"x"`), strings.NewReader(`:2}`)), nil, 200, `{"got":{"x":2},"env":"me","half":5}`},
		{"an event", "/", strings.NewReader(`{"x":1}`), []string{"ce-specversion", "1.0", "ce-type", "t", "ce-id", "7"}, 200, `"data":{"x":1}`},
		{"a handler that fails", "/", strings.NewReader(`{"fail":1}`), nil, 500, l.raised},
		{"an answer that is no JSON", "/", strings.NewReader(`{"cycle":1}`), nil, 500, "JSON"},
		{"too much", "/", strings.NewReader(large), []string{"Expect", "100-continue"}, 413, "10 MiB"},
		{"too much, without asking", "/", strings.NewReader(large), nil, 413, "10 MiB"},
		{"too much, in chunks", "/", io.MultiReader(strings.NewReader(large)), nil, 413, "10 MiB"},
		{"and then", "/", strings.NewReader(`{"x":3}`), nil, 200, `"x":3`},
	} {
		status, body := post(t, address, test.path, test.body, test.headers...)
		if plain := strings.ReplaceAll(strings.ReplaceAll(body, ": ", ":"), ", ", ","); status != test.status || !strings.Contains(plain, strings.ReplaceAll(test.want, ": ", ":")) {
			t.Errorf("%s: got %d %s, want %d %s", test.name, status, body, test.status, test.want)
		}
	}
}

func TestCodeThatDoesNotLoad(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(string(l.name), func(t *testing.T) {
			t.Parallel()
			address := server(t, l.name)
			if address == "" {
				return
			}
			var fault *sandbox.HandlerError
			err := load(t, address, "secret", sandbox.Code{Revision: "a", Handler: "func.main", Files: l.broken})
			if !errors.As(err, &fault) || !strings.Contains(fault.Message, l.failure) {
				t.Errorf("got %v, want a fault of the code: %s", err, l.failure)
			}
			if status, body := post(t, address, "/", strings.NewReader("{}")); status != http.StatusServiceUnavailable {
				t.Errorf("calling it: %d %s", status, body)
			}
		})
	}
}

// The kubelet replaces references to variables in commands.
func TestCommandsAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	settings, err := runtime.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range settings {
		if text := strings.Join(r.Command, " "); strings.Contains(text, "$(") || strings.Contains(text, "$$") {
			t.Errorf("the command of %s has what the kubelet replaces", name)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	s, err := runtime.Read(map[string]string{"image.python": "p:1", "pool.python": "7", "pool.node": "-1", "image.cobol": "c", "x": "y"})
	if got := fmt.Sprintf("%s %d %d", s[v1alpha1.Python].Image, s[v1alpha1.Python].Pool, s[v1alpha1.Node].Pool); got != "p:1 7 0" {
		t.Errorf("got %s", got)
	}
	for _, part := range []string{"pool.node", "image.cobol", "x: there is no such setting"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not speak of %s: %v", part, err)
		}
	}
}
