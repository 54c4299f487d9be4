// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cadvisor

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

var update = flag.Bool("update", false, "write the expected metrics anew; look at the difference")

var (
	made     = time.Unix(1700000000, 0)
	measured = time.UnixMilli(1700000100250)
)

const dev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    5000      50    0    0    0     0          0         0     5000      50    0    0    0     0       0          0
  eth0: 1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0
 veth1: 1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0
`

// v1 are the files of groups in the form of cgroup v1; RUN is a container with limits, BOX a sandbox without.
var v1 = map[string]string{
	"cpuacct/cpuacct.usage": "9000000000\n", "cpuacct/cpuacct.stat": "user 500\nsystem 400\n", "cpu/cpu.shares": "1024\n",
	"memory/memory.usage_in_bytes": "4096\n", "memory/memory.stat": "cache 1\npgfault 7\ntotal_cache 100\ntotal_inactive_file 96\ntotal_pgfault 70\n",
	"cpuacct/m/podu/cpuacct.usage": "3000000000\n", "cpu/m/podu/cpu.cfs_quota_us": "-1\n", "memory/m/podu/memory.limit_in_bytes": "9223372036854771712\n",
	"pids/m/podu/pids.current":         "6\n",
	"cpuacct/m/podu/BOX/cpuacct.usage": "0\n", "cpu/m/podu/BOX/cpu.shares": "2\n", "memory/m/podu/BOX/memory.usage_in_bytes": "100\n",
	"pids/m/podu/BOX/pids.current":     "1\n",
	"cpuacct/m/podu/RUN/cpuacct.usage": "2500000000\n", "cpuacct/m/podu/RUN/cpuacct.stat": "user 200\nsystem 50\n",
	"cpu/m/podu/RUN/cpu.stat":   "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000000\nnr_bursts 3\nburst_time 250000000\n",
	"cpu/m/podu/RUN/cpu.shares": "102\n", "cpu/m/podu/RUN/cpu.cfs_period_us": "100000\n", "cpu/m/podu/RUN/cpu.cfs_quota_us": "50000\n",
	"cpu/m/podu/RUN/cgroup.procs":             "11\n12\n13\n",
	"memory/m/podu/RUN/memory.usage_in_bytes": "3000\n", "memory/m/podu/RUN/memory.max_usage_in_bytes": "5000\n", "memory/m/podu/RUN/memory.failcnt": "2\n",
	"memory/m/podu/RUN/memory.kmem.usage_in_bytes": "64\n", "memory/m/podu/RUN/memory.limit_in_bytes": "8192\n",
	"memory/m/podu/RUN/memory.memsw.limit_in_bytes": "16384\n", "memory/m/podu/RUN/memory.soft_limit_in_bytes": "9223372036854771712\n",
	"memory/m/podu/RUN/memory.stat": "pgfault 30\npgmajfault 3\ntotal_cache 900\ntotal_rss 1800\ntotal_swap 12\ntotal_mapped_file 33\n" +
		"total_active_file 400\ntotal_inactive_file 500\ntotal_pgfault 40\ntotal_pgmajfault 4\n" +
		"dirty 1\ntotal_dirty 21\ntotal_writeback 22\ntotal_workingset_refault_file 23\ntotal_workingset_refault_anon 24\n",
	"memory/m/podu/RUN/memory.oom_control":                       "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
	"blkio/m/podu/RUN/blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 512\n8:0 Sync 0\n8:0 Total 4608\nTotal 4608\n",
	"blkio/m/podu/RUN/blkio.throttle.io_serviced_recursive":      "8:0 Read 3\n8:0 Write 1\nTotal 4\n",
	"pids/m/podu/RUN/pids.current":                               "5\n", "pids/m/podu/RUN/pids.max": "max\n",
}

// v2 are the same groups in the form of cgroup v2.
var v2 = map[string]string{
	"cpu.stat": "usage_usec 9000000\nuser_usec 5000000\nsystem_usec 4000000\n", "memory.stat": "file 100\ninactive_file 96\npgfault 70\n",
	"m/podu/cpu.stat": "usage_usec 3000000\nnr_periods 0\n", "m/podu/cpu.max": "max 100000\n", "m/podu/memory.max": "max\n", "m/podu/pids.current": "6\n",
	"m/podu/BOX/cpu.stat": "usage_usec 0\n", "m/podu/BOX/cpu.weight": "1\n", "m/podu/BOX/memory.current": "100\n", "m/podu/BOX/pids.current": "1\n",
	"m/podu/RUN/cpu.stat":   "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1500000\nnr_bursts 3\nburst_usec 250000\n",
	"m/podu/RUN/cpu.weight": "4\n", "m/podu/RUN/cpu.max": "50000 100000\n", "m/podu/RUN/cgroup.procs": "11\n12\n13\n",
	"m/podu/RUN/memory.current": "3000\n", "m/podu/RUN/memory.peak": "5000\n", "m/podu/RUN/memory.swap.current": "12\n",
	"m/podu/RUN/memory.max": "8192\n", "m/podu/RUN/memory.swap.max": "8192\n", "m/podu/RUN/memory.min": "0\n",
	"m/podu/RUN/memory.stat": "anon 1800\nfile 900\nkernel 64\nfile_mapped 33\nactive_file 400\ninactive_file 500\npgfault 40\npgmajfault 4\n" +
		"file_dirty 21\nfile_writeback 22\nworkingset_refault_file 23\nworkingset_refault_anon 24\npgscan 25\npgsteal 26\n",
	"m/podu/RUN/memory.events":   "low 0\nhigh 5\nmax 2\noom 1\noom_kill 1\n",
	"m/podu/RUN/io.stat":         "8:0 rbytes=4096 wbytes=512 rios=3 wios=1 dbytes=0 dios=0\n",
	"m/podu/RUN/pids.current":    "5\n",
	"m/podu/RUN/pids.max":        "max\n",
	"m/podu/RUN/cpu.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n",
	"m/podu/RUN/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
}

// groups are those of a Manager, measured at a fixed time. A path in fails has its error.
type groups struct {
	*cgroup.Manager
	fails map[string]error
}

func (g groups) Details(path string) (cgroup.Details, error) {
	if err := g.fails[filepath.Base(path)]; err != nil {
		return cgroup.Details{}, err
	}
	d, err := g.Manager.Details(path)
	d.Time = measured
	return d, err
}

// machine returns a Collector for a machine with these cgroup files.
func machine(t *testing.T, version string, files map[string]string) (*Collector, groups, string) {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, controller := range []string{"cpu", "cpuacct", "memory", "pids", "blkio"} {
		if version == "1" {
			if err := os.MkdirAll(filepath.Join(root, "cgroup", controller), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range files {
		put("cgroup/"+name, text)
	}
	put("proc/net/dev", dev)
	put("proc/77/net/dev", dev)
	put("proc/11/limits", "Limit                     Soft Limit           Hard Limit           Units\nMax processes             7                    8                    processes\nMax open files            1024                 4096                 files\n")
	put("proc/77/limits", "Max open files            unlimited            unlimited            files\n")
	for fd, to := range map[string]string{"11/fd/0": "/dev/null", "11/fd/1": "socket:[5]", "12/fd/0": "pipe:[6]"} { // 13 has ended
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "proc", filepath.Dir(fd)), 0o755), os.Symlink(to, filepath.Join(root, "proc", fd))); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/meminfo", "MemTotal: 16 kB\nMemFree: 8 kB\nSwapTotal: 4 kB\nSwapFree: 3 kB\nInactive(file): 1 kB\n")
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		t.Fatal(err)
	}
	put("proc/self/mountinfo", fmt.Sprintf("1 2 0:99 / /x rw - tmpfs other rw\n3 2 %d:%d / / rw shared:1 - ext4 /dev/disk rw\n", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err := os.MkdirAll(filepath.Join(root, "sys/dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/x/block/sda", filepath.Join(root, "sys/dev/block/8:0")); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSymlink {
			return err
		}
		return os.Chtimes(path, made, made)
	}); err != nil {
		t.Fatal(err)
	}
	m, err := cgroup.New(cgroup.Config{Root: "/m", Driver: "cgroupfs", Version: version, MountPoint: filepath.Join(root, "cgroup"), Proc: filepath.Join(root, "proc")})
	if err != nil {
		t.Fatal(err)
	}
	g := groups{m, map[string]error{}}
	owner := container.Pod{UID: "u", Namespace: "ns", Name: "web"}
	view := &observed.Pod{
		Pod: owner, Sandboxes: []*container.Sandbox{{ID: "BOX", State: container.StateRunning, Pid: 77, Image: "pause:1", CreatedAt: made.Add(time.Second)}},
		Containers: []*container.Container{
			{ID: "RUN", Name: "c", State: container.StateRunning, ImageRef: "nginx:1", CreatedAt: made.Add(2 * time.Second), StartedAt: made.Add(3 * time.Second), Pid: 11},
			{ID: "OLD", Name: "c", State: container.StateExited},
			{ID: "GONE", Name: "d", State: container.StateRunning}, // its group went a moment ago
		},
	}
	orphan := &observed.Pod{Pod: container.Pod{UID: "o"}, Containers: []*container.Container{{ID: "X", Name: "c", State: container.StateRunning}}}
	return New(Config{
		Groups: func() Groups { return g }, Version: "v1.37.0", Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"),
		Observed: func() map[types.UID]*observed.Pod { return map[types.UID]*observed.Pod{"u": view, "o": orphan} },
		Written: func(id string) *FileSystem {
			if id != "RUN" {
				return nil
			}
			return &FileSystem{Dir: root, Used: 300, Limit: 4000, Inodes: 50, InodesFree: 20}
		},
		FileSystems: func() []FileSystem {
			return []FileSystem{{Dir: root, Used: 1000, Limit: 4000, Inodes: 50, InodesFree: 20}, {Dir: filepath.Join(root, "absent"), Used: 1}}
		},
		Machine: func() (Machine, error) {
			return Machine{MachineID: "mid", SystemUUID: "sid", BootID: "bid", KernelVersion: "6", OSVersion: "Linux", EngineVersion: "20", Cores: 2, Memory: 16384, Swap: 4096}, nil
		},
	}), g, filepath.Join(root, "cgroup")
}

// scrape returns what an HTTP client sees.
func scrape(t *testing.T, c *Collector) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics/cadvisor", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	for version, files := range map[string]map[string]string{"1": v1, "2": v2} {
		t.Run("cgroup v"+version, func(t *testing.T) {
			c, _, dir := machine(t, version, files)
			got := scrape(t, c)
			golden := "testdata/v" + version + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// What is gone was not made anew by reading it.
			for _, name := range []string{"GONE", "X", "podo"} {
				if found, err := filepath.Glob(filepath.Join(dir, "*/*/*/"+name)); err != nil || len(found) > 0 {
					t.Errorf("%v %v", found, err)
				}
			}
		})
	}
}

func TestFailures(t *testing.T) {
	c, g, _ := machine(t, "1", v1)
	g.fails["RUN"] = errors.New("no such luck")
	got := scrape(t, c)
	if !strings.Contains(got, "container_scrape_error 1\n") || strings.Contains(got, `name="RUN"`) || !strings.Contains(got, `name="BOX"`) {
		t.Errorf("one group that cannot be read, of several:\n%s", got)
	}
	g.fails["RUN"] = fs.ErrNotExist
	c.cfg.Machine = func() (Machine, error) { return Machine{}, errors.New("no such luck") }
	got = scrape(t, c)
	if !strings.Contains(got, "container_scrape_error 0\n") || strings.Contains(got, `name="RUN"`) {
		t.Errorf("a group that is gone:\n%s", got)
	}
	if !strings.Contains(got, "machine_scrape_error 1\n") || strings.Contains(got, "machine_cpu_cores{") {
		t.Errorf("a machine that cannot be read:\n%s", got)
	}
}

// TestEarly checks what is told before the engine has answered for the first time.
func TestEarly(t *testing.T) {
	c, _, _ := machine(t, "1", v1)
	c.cfg.Groups = func() Groups { return nil }
	if got := scrape(t, c); !strings.Contains(got, "machine_cpu_cores{") || strings.Contains(got, "container_cpu") || !strings.Contains(got, "container_scrape_error 0\n") {
		t.Error(got)
	}
}

func TestOfContainers(t *testing.T) {
	for name, want := range map[string]bool{"lo": true, "veth12": true, "docker0": true, "eth0": false, "wlan0": false} {
		if got := ofContainers(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
