// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is the folder of the entries NAME.json of this machine's clusters. Beside each are two locks, and the folder itself
// is a third:
//
//   - NAME.lock is held by the one operation that is under way (Lock). It is a lock of the open file (flock), so that an
//     operation can hand it to the process that it starts, without an instant at which nobody holds it.
//   - NAME.run is held by the process that runs the cluster (Run), and is only ever taken by who holds NAME.lock. It is a
//     lock of the process (fcntl), so that the kernel, and no file that may be old, tells which process that is.
//   - the folder is held by who chooses what no two clusters may share (Whole), for as long as that takes.
//
// The entry is written by who holds NAME.run, or while nobody does by who holds NAME.lock. The kernel lets go of all three
// when their holder dies.
type Dir string

// Entry is where the entry of a cluster is.
func (d Dir) Entry(name string) string { return filepath.Join(string(d), name+".json") }

func (d Dir) lock(name string) string { return filepath.Join(string(d), name+".lock") }
func (d Dir) run(name string) string  { return filepath.Join(string(d), name+".run") }

// Traces reports whether there is an entry of a cluster, or an operation that might make one.
func (d Dir) Traces(name string) bool {
	for _, path := range []string{d.Entry(name), d.lock(name)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// patience is the time between two tries for a lock.
const patience = 10 * time.Millisecond

// Lock is the lock of an operation.
type Lock struct {
	dir  Dir
	name string
	file *os.File
}

// Lock takes the lock of an operation on a cluster, and waits for it until ctx ends. If it has to wait, waiting is called
// once with what is known of the holder. What is how the holder is called by others that wait.
func (d Dir) Lock(ctx context.Context, name, what string, waiting func(holder string)) (*Lock, error) {
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for told := false; ; {
		f, err := d.try(ctx, d.lock(name), os.O_CREATE|os.O_RDWR)
		if err != nil {
			return nil, fmt.Errorf("locking cluster %q: %w", name, err)
		}
		if f != nil {
			l := &Lock{dir: d, name: name, file: f}
			l.sign(what)
			return l, nil
		}
		if !told {
			told = true
			waiting(d.holder(name))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s on cluster %q: %w", d.holder(name), name, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// tries is how often in a row the folder or the file may be gone when it is to be locked. The last cluster takes them along when
// it ends, but not that often: then the folder cannot be made, for instance because it is a link to what is not there.
const tries = 50

// errGone says that what was to be locked has been removed meanwhile.
var errGone = errors.New("it is removed again and again, or cannot be made: is a folder above it a link to nothing?")

// try opens and locks a file or folder; nil if another has it.
func (d Dir) try(ctx context.Context, path string, flags int) (*os.File, error) {
	for range tries {
		f, err := d.tryOnce(path, flags)
		if !errors.Is(err, errGone) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(patience):
		}
	}
	return nil, fmt.Errorf("%s: %w", path, errGone)
}

func (d Dir) tryOnce(path string, flags int) (*os.File, error) {
	if err := d.make(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return nil, nil
		}
		return nil, err
	}
	// Who held it before may have removed it: then this is a lock that nobody else will meet.
	if !same(f, path) {
		_ = f.Close()
		return nil, errGone
	}
	return f, nil
}

func same(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(held, there)
}

// make makes the folder. Others than its owner can find an entry that they know the name of, and nothing else: they must
// be told that a cluster is somebody else's, and must not be able to take a lock.
func (d Dir) make() error {
	err := os.MkdirAll(filepath.Dir(string(d)), 0o711)
	if err == nil {
		err = os.Mkdir(string(d), 0o711)
	}
	// The last cluster may take the folders with it meanwhile: then the next try makes them again.
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sign writes who holds the lock, for the messages of those that wait. That it fails does no harm.
func (l *Lock) sign(what string) {
	if l.file.Truncate(0) == nil {
		_, _ = l.file.WriteAt(fmt.Appendf(nil, "%q (process %d)", "minik8s "+what, os.Getpid()), 0)
	}
}

func (d Dir) holder(name string) string {
	data, err := os.ReadFile(d.lock(name))
	if err != nil || len(data) == 0 {
		return "another operation"
	}
	return string(data)
}

// Release ends the operation. If there is no cluster now, nothing of it is left.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	defer func() {
		_ = l.file.Close()
		l.file = nil
	}()
	if _, err := os.Lstat(l.dir.Entry(l.name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range []string{partial(l.dir.Entry(l.name)), l.dir.run(l.name), l.dir.lock(l.name)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the locks of cluster %q: %w", l.name, err)
		}
	}
	_ = os.Remove(string(l.dir)) // these fail, as they should, while another cluster is there
	_ = os.Remove(filepath.Dir(string(l.dir)))
	return nil
}

// inheritedEnv names the descriptor of the lock that a process was handed.
const inheritedEnv = "MINIK8S_LOCK_FD"

// Hand returns what makes the lock known to a child: its file, which must become descriptor fd there, and a variable of
// its environment. Both processes hold the lock until both have let go.
func (l *Lock) Hand(fd int) (file *os.File, env string) {
	return l.file, inheritedEnv + "=" + strconv.Itoa(fd)
}

// Inherited returns the lock that this process was handed, nil if none was.
func (d Dir) Inherited(name string) (*Lock, error) {
	text, given := os.LookupEnv(inheritedEnv)
	if !given {
		return nil, nil
	}
	_ = os.Unsetenv(inheritedEnv) // fails for a name that none can have
	fd, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", inheritedEnv, err)
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), d.lock(name))
	// On the open file that has the lock already this changes nothing.
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil || !same(f, d.lock(name)) {
		_ = f.Close()
		return nil, fmt.Errorf("descriptor %d is not the lock of cluster %q: %w", fd, name, errors.Join(err, os.ErrInvalid))
	}
	return &Lock{dir: d, name: name, file: f}, nil
}

// Close lets go of a lock that another process holds too, and leaves the rest to it.
func (l *Lock) Close() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// Whole takes the lock of the whole folder, and waits for it until ctx ends.
func (d Dir) Whole(ctx context.Context) (release func(), err error) {
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for {
		f, err := d.try(ctx, string(d), os.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", d, err)
		}
		if f != nil {
			return func() { _ = f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("locking %s: %w", d, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// Names are the clusters that have an entry, sorted.
func (d Dir) Names() ([]string, error) {
	files, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if name, is := strings.CutSuffix(f.Name(), ".json"); is && name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

// partial is where an entry is written before it takes its place. There is one writer, so the name is always the same,
// and what a crash leaves is overwritten or removed.
func partial(entry string) string { return entry + ".partial" }

// Write replaces the entry of a cluster. A crash leaves either the old one or the new one. The caller holds one of the
// cluster's locks as Dir says.
func (d Dir) Write(name string, data []byte) error {
	path := d.Entry(name)
	f, err := os.OpenFile(partial(path), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(partial(path), path)
}

// Remove removes the entry of a cluster. The locks go when the operation ends.
func (d Dir) Remove(name string) error {
	if err := os.Remove(d.Entry(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
