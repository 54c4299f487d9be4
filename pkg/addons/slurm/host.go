// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/login"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/script"
)

// directory is where a job's files are, below the user's home; nobody else's are there. Its name, and those of parts of volumes beside it, have
// to be as short as file systems want names, which those of objects need not be.
func directory(job *batchv1alpha1.SlurmJob) string {
	return fmt.Sprintf(".minik8s/%s.%.100s.%s", job.Namespace, job.Name, job.UID)
}

// jobName is what Slurm calls the job: it is found again by it.
func jobName(job *batchv1alpha1.SlurmJob) string { return "minik8s-" + string(job.UID) }

// runner runs commands on the login node.
type runner interface {
	Run(ctx context.Context, command string, stdin io.Reader, limit int) (login.Result, error)
}

var _ runner = (*login.Connection)(nil)

// host is the login node as one job sees it.
type host struct {
	runner

	job *batchv1alpha1.SlurmJob
}

// kept is how much is kept of what a command of ours writes.
const kept = 16 << 10

// noDirectory is the code where the job's directory is not there.
const noDirectory = 90

// in runs a command in the job's directory.
func (h host) in(ctx context.Context, command string, stdin io.Reader, limit int) (login.Result, error) {
	return h.Run(ctx, fmt.Sprintf("cd %s || exit %d\n%s", script.Quote(h.job.Status.Directory), noDirectory, command), stdin, limit)
}

// Files of the compilation: a directory made by who begins it, the shell that does it, what it writes, and its code at the end.
const (
	compileScript = ".minik8s-compile.sh"
	compileBegun  = ".minik8s-compile"
	compilePid    = ".minik8s-compile-pid"
	compileOutput = ".minik8s-compile-output"
	compileCode   = ".minik8s-compile-code"
)

// Files of the submission: a directory made by who begins it, with what sbatch answers and its code at the end; the job's id.
const (
	submitBegun = ".minik8s-submit"
	submittedID = ".minik8s-id"
)

// parts begins the names of directories, beside the job's, that have a part of a volume.
func (h host) parts() string { return h.job.Status.Directory + ".part-" }

// brought tells whether the volume is there, which it is as a whole.
func (h host) brought(ctx context.Context) (bool, error) {
	r, err := h.Run(ctx, "if [ -d "+script.Quote(h.job.Status.Directory)+" ]; then echo there; fi", nil, kept)
	return strings.TrimSpace(r.Stdout) == "there", explain("looking for the source", r, err)
}

// prepare makes an empty part, in place of others' parts.
func (h host) prepare(ctx context.Context, part string) error {
	r, err := h.Run(ctx, "umask 077; "+remove(script.Quote(h.parts())+"*")+" && mkdir -p "+script.Quote(part), nil, kept)
	return explain("making a directory on the login node", r, err)
}

// receive unpacks a tar archive into a part. It makes no directory: it may be done late, when nobody waits for it any more and the part is
// removed. What is called as our files are is left out.
func (h host) receive(ctx context.Context, part string, archive io.Reader) error {
	r, err := h.Run(ctx, "umask 077; cd "+script.Quote(part)+" && tar -x -o -f - && cat >/dev/null && rm -rf .minik8s*", archive, kept)
	return explain("unpacking it on the login node", r, err)
}

// received makes a part the whole, which it is if who has sent it says so: what is unpacked may look whole and not be.
func (h host) received(ctx context.Context, part string) error {
	r, err := h.Run(ctx, "mv -T "+script.Quote(part)+" "+script.Quote(h.job.Status.Directory), nil, kept)
	return explain("giving it its name", r, err)
}

// upload brings the files. A second time it changes nothing that compilation has made, and nothing that sbatch may be reading.
func (h host) upload(ctx context.Context, source *corev1.ConfigMap) error {
	files := map[string][]byte{}
	if source != nil {
		for name, text := range source.Data {
			files[name] = []byte(text)
		}
		maps.Copy(files, source.BinaryData)
	}
	files[script.Script] = []byte(script.Batch(jobName(h.job), &h.job.Spec)) // whatever the source calls its files
	if len(h.job.Spec.Compile) > 0 {
		files[compileScript] = []byte("set -e\n" + strings.Join(h.job.Spec.Compile, "\n") + "\n")
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o700, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	dir := script.Quote(h.job.Status.Directory)
	result, err := h.Run(ctx, "umask 077; mkdir -p "+dir+" && cd "+dir+" && { [ -d "+compileBegun+" ] || [ -d "+submitBegun+" ] || tar -x; }", &archive, kept)
	return explain("copying the source", result, err)
}

// explain makes an error of what a command says.
func explain(doing string, r login.Result, err error) error {
	if err == nil && r.Code == 0 {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("code %d", r.Code)
	}
	if said := strings.TrimSpace(r.Stderr); said != "" {
		return fmt.Errorf("%s: %w: %s", doing, err, said)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// compilation is how far the compile commands are.
type compilation struct {
	// code is that of timeout(1), "" while they run.
	code, output string
	// age is the time since they began, while they run.
	age time.Duration
}

// compile begins the compilation unless it has begun, and looks how far it is. It goes on whoever looks.
func (h host) compile(ctx context.Context) (compilation, error) {
	r, err := h.in(ctx, fmt.Sprintf(`if mkdir %[1]s 2>/dev/null; then
setsid sh -c 'echo $$ >%[2]s; timeout -k 10 %[3]d bash %[4]s >%[5]s 2>&1; echo $? >%[6]s.new; mv %[6]s.new %[6]s' </dev/null >/dev/null 2>&1 &
fi
if [ -f %[6]s ]; then cat %[6]s; tail -c %[7]d %[5]s; else echo; echo $(($(date +%%s) - $(stat -c %%Y %[1]s))); fi`,
		compileBegun, compilePid, h.job.Spec.CompileSeconds, compileScript, compileOutput, compileCode, kept), nil, 2*kept)
	if err := explain("compiling", r, err); err != nil {
		return compilation{}, err
	}
	c := compilation{}
	var rest string
	if c.code, rest, _ = strings.Cut(r.Stdout, "\n"); c.code != "" {
		c.output = rest
		return c, nil
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(rest))
	if err != nil {
		return c, fmt.Errorf("compiling: the login node answers %q", r.Stdout)
	}
	c.age = time.Duration(seconds) * time.Second
	return c, nil
}

// Codes of the shell that submits.
const (
	cannotAsk     = 91
	cannotSubmit  = 92
	notAnswered   = 93
	noSuchCommand = 127
)

const (
	// answerWait is how many seconds a look at a submission waits for sbatch.
	answerWait = 5
	// submitMost is after how many seconds an sbatch without an answer is thought to be gone with its machine. It tries again by itself
	// for some minutes when Slurm is busy.
	submitMost = 900
)

// submit submits the job unless Slurm has it, and returns its id. sbatch goes on whoever looks: one that hangs and is given up may be
// heard nevertheless, and another beside it would submit the job twice. What is found under the job's name was submitted by one whose
// answer was lost; squeue forgets soon what has ended, and sacct, where there is accounting, does not. Its clock may be another than ours.
func (h host) submit(ctx context.Context) (login.Result, error) {
	return h.in(ctx, fmt.Sprintf(`[ ! -s %[1]s ] || { cat %[1]s; exit 0; }
if [ -d %[2]s ] && [ ! -f %[2]s/code ] && [ $(($(date +%%s) - $(stat -c %%Y %[2]s))) -ge %[10]d ]; then rm -rf %[2]s; fi
keep() { printf '%%s\n' "${1%%%%;*}" | head -n 1 >%[1]s.new && mv %[1]s.new %[1]s && cat %[1]s; }
if [ ! -d %[2]s ]; then
id=$(squeue --noheader --format=%%A --states=all --name=%[3]s) || exit %[5]d
[ -n "$id" ] || id=$(timeout 10 sacct --name=%[3]s --starttime="$(date -d @%[8]d +%%Y-%%m-%%dT%%H:%%M:%%S)" --allocations --parsable2 --noheader --format=JobIDRaw 2>/dev/null) || id=
[ -z "$id" ] || { keep "$id"; exit; }
mkdir %[2]s || exit %[5]d
setsid sh -c 'sbatch --parsable %[4]s >%[2]s/id 2>%[2]s/said; echo $? >%[2]s/new; mv %[2]s/new %[2]s/code' </dev/null >/dev/null 2>&1 &
fi
i=0; while [ ! -f %[2]s/code ] && [ $i -lt %[9]d ]; do i=$((i+1)); sleep 0.1; done
[ -f %[2]s/code ] || exit %[7]d
cat %[2]s/said >&2
[ "$(cat %[2]s/code)" = 0 ] || { rm -rf %[2]s.old; mv %[2]s %[2]s.old; rm -rf %[2]s.old; exit %[6]d; }
keep "$(cat %[2]s/id)"`,
		submittedID, submitBegun, script.Quote(jobName(h.job)), script.Script, cannotAsk, cannotSubmit, notAnswered,
		h.job.CreationTimestamp.Add(-time.Hour).Unix(), answerWait*10, submitMost), nil, kept)
}

// look asks Slurm for the job: sacct, which remembers, and if that has no answer the controller, which does for some minutes. False: Slurm
// does not know the job, and not only the one of the two that is there now.
func (h host) look(ctx context.Context) (script.Job, bool, error) {
	id := script.Quote(h.job.Status.JobID)
	r, err := h.Run(ctx, "sacct --jobs="+id+" --parsable2 --noheader --allocations --format="+script.SacctFields, nil, kept)
	if err != nil {
		return script.Job{}, false, explain("asking sacct", r, err)
	}
	var away error
	switch {
	case r.Code == 0:
		if j, ok, err := script.Sacct(r.Stdout); err != nil || ok {
			return j, ok, err
		}
	case r.Code != noSuchCommand && !strings.Contains(r.Stderr, "is disabled"): // else there is no accounting
		away = explain("asking sacct", r, nil)
	}
	r, err = h.Run(ctx, "scontrol --oneliner show job "+id, nil, kept)
	if err == nil && r.Code != 0 && strings.Contains(r.Stderr, "Invalid job id") {
		return script.Job{}, false, away
	}
	if err := explain("asking scontrol", r, err); err != nil {
		return script.Job{}, false, err
	}
	return script.Scontrol(r.Stdout)
}

// errNoDirectory is that the job's files are gone.
var errNoDirectory = errors.New("the job's directory is not there")

// read returns the end of a file of the job; nothing if there is none.
func (h host) read(ctx context.Context, name string, limit int) (string, error) {
	r, err := h.in(ctx, fmt.Sprintf("[ ! -f %[1]s ] || tail -c %[2]d %[1]s", name, limit), nil, limit)
	if err == nil && r.Code == noDirectory {
		err = errNoDirectory
	}
	return r.Stdout, explain("reading "+name, r, err)
}

// cancel ends the compilation and the job, if there are any. A submission that is on its way has to end first: nobody would know of what
// comes of it.
func (h host) cancel(ctx context.Context) error {
	r, err := h.Run(ctx, fmt.Sprintf(`if cd %[1]s 2>/dev/null; then
if [ -f %[2]s ] && [ ! -f %[3]s ]; then kill -TERM -- -"$(cat %[2]s)" 2>/dev/null; fi
if [ -d %[5]s ] && [ ! -f %[5]s/code ] && [ $(($(date +%%s) - $(stat -c %%Y %[5]s))) -lt %[6]d ]; then exit %[7]d; fi
fi
scancel --name=%[4]s`, script.Quote(h.job.Status.Directory), compilePid, compileCode, script.Quote(jobName(h.job)), submitBegun, submitMost, notAnswered), nil, kept)
	switch {
	case r.Code == noSuchCommand && h.job.Status.JobID == "":
		return err // a machine without Slurm has no job of it
	case err == nil && r.Code == notAnswered:
		return errNotAnswered
	}
	return explain("cancelling", r, err)
}

// errNotAnswered is that sbatch takes its time.
var errNotAnswered = errors.New("sbatch has not answered yet")

// remove is the command that removes directories, also those below them that a job or a volume has made read-only.
func remove(paths string) string {
	return "{ rm -rf -- " + paths + " 2>/dev/null || { chmod -R u+rwX -- " + paths + " 2>/dev/null; rm -rf -- " + paths + "; }; }"
}

// clean removes the files.
func (h host) clean(ctx context.Context) error {
	r, err := h.Run(ctx, remove(script.Quote(h.job.Status.Directory)+" "+script.Quote(h.parts())+"*")+" && { rmdir .minik8s 2>/dev/null; true; }", nil, kept)
	return explain("removing the job's files", r, err)
}
