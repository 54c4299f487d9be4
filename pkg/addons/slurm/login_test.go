// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// loginNode is an SSH server whose shell is the machine's own, with stand-ins for Slurm's commands: a job runs as a process beside.
type loginNode struct {
	home, state string
	host        string
	port        int
	privateKey  []byte
	knownHosts  []byte
	address     string

	listener net.Listener
	config   *ssh.ServerConfig
	wait     sync.WaitGroup
}

// Stand-ins. What a test wants of them is a file in $STATE.
var commands = map[string]string{
	"sbatch": `[ ! -f $STATE/away ] || { echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" >&2; exit 1; }
for script; do :; done
[ ! -f $STATE/slow ] || sleep 3
if grep -q partition=none $script; then echo "sbatch: error: invalid partition specified: none" >&2; exit 1; fi
name=$(sed -n 's/^#SBATCH --job-name=//p' $script)
id=$(($(ls $STATE/jobs | wc -l) + 100)); mkdir $STATE/jobs/$id; echo $name >$STATE/jobs/$id/name; echo RUNNING >$STATE/jobs/$id/state
setsid sh -c "echo \$\$ >$STATE/jobs/$id/pid; if bash $script >.minik8s-output 2>.minik8s-error; then echo COMPLETED; else echo FAILED; fi >$STATE/jobs/$id/new; mv $STATE/jobs/$id/new $STATE/jobs/$id/state" </dev/null >/dev/null 2>&1 &
echo "$id;cluster"
[ ! -f $STATE/lost ] || { rm $STATE/lost; kill -9 $PPID; }`,
	"squeue": `[ ! -f $STATE/away ] || exit 1
[ ! -f $STATE/forgotten ] || exit 0
for a; do case $a in --name=*) name=${a#--name=};; esac; done
for j in $STATE/jobs/*; do [ ! -d $j ] || [ "$(cat $j/name)" != "$name" ] || basename $j; done`,
	"sacct": `[ ! -f $STATE/nodb ] || { echo "Slurm accounting storage is disabled" >&2; exit 1; }
[ ! -f $STATE/dbaway ] || { echo "sacct: error: Problem talking to the database: Connection refused" >&2; exit 1; }
for a; do case $a in --jobs=*) id=${a#--jobs=};; --name=*) name=${a#--name=};; esac; done
if [ -n "$name" ]; then
  for j in $STATE/jobs/*; do [ ! -d $j ] || [ "$(cat $j/name)" != "$name" ] || basename $j; done
  exit 0
fi
[ ! -d $STATE/jobs/$id ] || echo "$id|$(cat $STATE/jobs/$id/state)|None|0:0|acct|1|n1"`,
	"scontrol": `for id; do :; done
[ -d $STATE/jobs/$id ] && [ ! -f $STATE/forgotten ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
echo "JobId=$id JobName=x JobState=$(cat $STATE/jobs/$id/state) Reason=None ExitCode=0:0 NumCPUs=1 NodeList=n1"`,
	"scancel": `for a; do case $a in --name=*) name=${a#--name=};; esac; done
for j in $STATE/jobs/*; do
  if [ -d $j ] && [ "$(cat $j/name)" = "$name" ]; then kill -- -$(cat $j/pid) 2>/dev/null; echo "CANCELLED by 1" >$j/state; fi
done; true`,
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

func newLoginNode(t *testing.T) *loginNode {
	t.Helper()
	n := &loginNode{home: t.TempDir(), state: t.TempDir(), host: "127.0.0.1"}
	bin := filepath.Join(n.state, "bin")
	for _, dir := range []string{bin, filepath.Join(n.state, "jobs")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range commands {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	user, private := newKey(t)
	own, _ := newKey(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	n.privateKey = private
	n.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(user.PublicKey().Marshal()) {
			return nil, io.EOF
		}
		return &ssh.Permissions{}, nil
	}}
	n.config.AddHostKey(own)
	n.config.AddHostKey(other) // not known, as one of several is not that a machine has, though clients like its kind best
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	n.address = n.listener.Addr().String()
	n.port = n.listener.Addr().(*net.TCPAddr).Port
	n.knownHosts = []byte(knownhosts.Line([]string{n.address}, own.PublicKey()) + "\n")
	n.wait.Go(n.serve)
	t.Cleanup(func() {
		_ = n.listener.Close()
		n.wait.Wait()
	})
	return n
}

func (n *loginNode) serve() {
	for {
		conn, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.wait.Go(func() {
			defer conn.Close()
			server, channels, requests, err := ssh.NewServerConn(conn, n.config)
			if err != nil {
				return
			}
			defer server.Close()
			go ssh.DiscardRequests(requests)
			for c := range channels {
				channel, requests, err := c.Accept()
				if err != nil {
					return
				}
				n.wait.Go(func() { n.session(channel, requests) })
			}
		})
	}
}

// session runs the one command of a session.
func (n *loginNode) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for request := range requests {
		if request.Type != "exec" {
			_ = request.Reply(false, nil)
			continue
		}
		var payload struct{ Command string }
		_ = ssh.Unmarshal(request.Payload, &payload)
		_ = request.Reply(true, nil)
		cmd := exec.Command("sh", "-c", payload.Command)
		cmd.Dir = n.home
		cmd.Env = []string{"HOME=" + n.home, "STATE=" + n.state, "USER=u", "PATH=" + filepath.Join(n.state, "bin") + ":" + os.Getenv("PATH")}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
		cmd.WaitDelay = 5 * time.Second // a job that keeps what it should not
		var code struct{ Status uint32 }
		if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() < 0 {
			return // no code, as of a machine that went away
		}
		code.Status = uint32(cmd.ProcessState.ExitCode())
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(code))
		return
	}
}

// want makes or removes what a stand-in looks for.
func (n *loginNode) want(t *testing.T, name string, there bool) {
	t.Helper()
	path := filepath.Join(n.state, name)
	var err error
	if there {
		err = os.WriteFile(path, nil, 0o600)
	} else {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// submission is the directory of the submission that is on its way, "" if there is none.
func (n *loginNode) submission(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(n.home, ".minik8s", "*", submitBegun))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, " ")
}

// jobs is how many Slurm has got.
func (n *loginNode) jobs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(n.state, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// left are the directories of jobs that are there.
func (n *loginNode) left(t *testing.T) string {
	t.Helper()
	entries, err := filepath.Glob(filepath.Join(n.home, ".minik8s*"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(entries, " ")
}
