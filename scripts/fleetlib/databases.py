"""Database servers of a fleet: PostgreSQL with standbys, MariaDB with replicas, and Galera clusters."""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import time

TIMEOUT = 90
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
GALERA = "/usr/lib/galera/libgalera_smm.so"


def wait_until(what, is_so, timeout=TIMEOUT):
    start = time.monotonic()
    while not is_so():
        if time.monotonic() - start > timeout:
            raise SystemExit(f"failed: {what} did not come about within {timeout} s")
        time.sleep(0.05)
    return time.monotonic() - start


def children(parent):
    """Returns the processes that a process has started, and those that these have."""
    parents = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text().rsplit(")", 1)[1].split()
            parents.setdefault(int(stat[1]), []).append(int(process.name))
        except OSError:
            pass
    found, left = [], [parent]
    while left:
        more = parents.get(left.pop(), [])
        found += more
        left += more
    return found


class Node:
    """A database server on a host of its own; neither it nor its tools run as root."""

    user = None

    def __init__(self, directory, host):
        self.directory, self.host, self.data, self.process = directory, host, directory / "data", None
        self.clock = 0
        directory.mkdir()
        user = pwd.getpwnam(self.user)
        os.chown(directory, user.pw_uid, user.pw_gid)

    def command(self, name, *arguments):
        own = ["setpriv", "--reuid", self.user, "--regid", self.user, "--clear-groups"]
        return [*self.host.prefix(), *own, self.program(name), *map(str, arguments)]

    def run(self, name, *arguments, env=None):
        done = subprocess.run(self.command(name, *arguments), cwd=self.directory, capture_output=True, text=True, env=env)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr}")

    def start(self):
        environment = dict(os.environ, HOME=str(self.directory))
        words = self.server()
        if self.clock:
            # The clock that can be set, and not the one that measures durations.
            preload = [f"LD_PRELOAD={FAKETIME}", f"FAKETIME={self.clock:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
            at = words.index("--clear-groups") + 1
            words = [*words[:at], "env", *preload, *words[at:]]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=open(self.directory / "log", "a"),
                                        cwd=self.directory, env=environment, start_new_session=True)

    def await_ready(self):
        return wait_until(f"{self.host.name}: the database", lambda: self.is_alive() and self.value("SELECT 1", "") == "1")

    def is_alive(self):
        if not self.is_running():
            log = (self.directory / "log").read_text().splitlines()[-20:]
            raise SystemExit("\n".join([f"failed: {self.host.name} has ended", *log]))
        return True

    def value(self, sql, name="pdns"):
        """Returns the output of a statement; None if it fails."""
        try:
            done = subprocess.run(self.client(name), input=sql, cwd=self.directory, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def sql(self, sql, name="pdns"):
        done = subprocess.run(self.client(name), input=sql, cwd=self.directory, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{self.host.name}: {done.stderr}")

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.is_running():
            for pid in [self.process.pid, *children(self.process.pid)]:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass

    def stop(self):
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()


class Postgres(Node):
    user = "postgres"
    kind = "postgres"

    def __init__(self, directory, host, copy_of=None):
        super().__init__(directory, host)
        if copy_of is None:
            self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
            with open(self.data / "pg_hba.conf", "a") as access:
                access.write("host all all 10.77.0.0/16 trust\nhost replication all 10.77.0.0/16 trust\n")
        else:
            self.run("pg_basebackup", "-h", copy_of.host.address, "-U", "postgres", "-D", self.data,
                     "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
        self.start()
        self.await_ready()

    def program(self, name):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        if not found:
            sys.exit(f"{name} is missing: install postgresql (scripts/install-deps)")
        return str(found[-1])

    def server(self):
        settings = ["wal_receiver_timeout=5s", "wal_sender_timeout=5s", "wal_keep_size=256MB", "full_page_writes=off"]
        words = [word for setting in settings for word in ("-c", setting)]
        return self.command("postgres", "-D", self.data, "-h", self.host.address, "-k", self.directory, "-F", *words)

    def client(self, name):
        return self.command("psql", "-h", self.directory, "-U", "postgres", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                            "-d", name or "postgres")

    def url(self):
        return f"postgres://postgres@{self.host.address}/pdns"

    def set(self, name, value):
        self.sql(f"ALTER SYSTEM SET {name} = '{value}'", "")
        self.sql("SELECT pg_reload_conf()", "")

    def shut_down(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def follow(self, primary):
        """Makes it a standby; it was shut down after all it had was replicated."""
        (self.data / "standby.signal").touch()
        with open(self.data / "postgresql.auto.conf", "a") as settings:
            settings.write(f"primary_conninfo = 'host={primary.host.address} user=postgres'\nsynchronous_standby_names = ''\n")
        shutil.chown(self.data / "standby.signal", self.user, self.user)
        self.start()
        self.await_ready()

    def promote(self):
        self.set("synchronous_standby_names", "")
        self.sql("SELECT pg_promote(true, 60)", "")


class Mariadb(Node):
    user = "mysql"
    kind = "mysql"

    def __init__(self, directory, host, arguments):
        super().__init__(directory, host)
        self.arguments = arguments

    def install(self):
        self.run("mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
                 f"--datadir={self.data}", f"--tmpdir={self.directory}", env=dict(os.environ, HOME=str(self.directory)))

    def program(self, name):
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
        if found is None:
            sys.exit(f"{name} is missing: install mariadb-server (scripts/install-deps)")
        return found

    def server(self):
        own = ["--no-defaults", f"--bind-address={self.host.address}", "--skip-name-resolve", f"--datadir={self.data}",
               f"--tmpdir={self.directory}", f"--socket={self.directory}/socket", f"--pid-file={self.directory}/pid",
               "--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-buffer-pool-size=64M",
               "--binlog-format=ROW"]
        return self.command("mariadbd", *own, *self.arguments)

    def client(self, name):
        words = ["--no-defaults", "-u", "root", "-N", "-B", "--connect-timeout=5", f"--socket={self.directory}/socket"]
        return self.command("mariadb", *words, name or "mysql")

    def url(self):
        return f"mysql://nameward@{self.host.address}/pdns"

    def admit(self):
        """Creates the accounts of servers and replicas."""
        self.sql("CREATE USER nameward@'%'; GRANT ALL ON *.* TO nameward@'%'", "")

    def status(self, variable):
        sql = f"SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{variable}'"
        return self.value(sql, "")


def galera_node(directory, host, hosts):
    """A node of a cluster on these hosts; the first one to start founds it."""
    if not os.path.exists(GALERA):
        sys.exit("galera-4 is missing: install it (scripts/install-deps)")
    others = ",".join(other.address for other in hosts)
    options = "evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S;evs.install_timeout=PT5S;gcache.size=64M"
    node = Mariadb(directory, host, [
        "--wsrep-on=ON", f"--wsrep-provider={GALERA}", "--wsrep-cluster-name=fleet", f"--wsrep-cluster-address=gcomm://{others}",
        f"--wsrep-node-address={host.address}", f"--wsrep-node-name={host.name}", "--wsrep-sst-method=rsync",
        "--innodb-autoinc-lock-mode=2", f"--wsrep-provider-options={options}"])
    return node


def found_cluster(nodes):
    """Starts a cluster; all nodes but the first get a full copy (SST)."""
    first, joining = nodes[0], nodes[0].arguments
    first.install()
    first.arguments = [*joining, "--wsrep-new-cluster"]
    first.start()
    first.await_ready()
    first.arguments = joining
    first.admit()
    for node in nodes[1:]:
        node.data.mkdir()
        shutil.chown(node.data, node.user, node.user)
        node.start()
        await_synced(node, 0)


def await_synced(node, size):
    """Waits until a node accepts statements and sees at least this many nodes."""
    def is_synced():
        return node.is_alive() and node.status("wsrep_ready") == "ON" and int(node.status("wsrep_cluster_size") or 0) >= size
    return wait_until(f"{node.host.name} in step with its cluster", is_synced)
