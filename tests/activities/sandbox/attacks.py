# ruff: noqa: E501 - the sources read best with their line breaks where Python has them
"""The attacks: a name, the source (its `check` takes port, secret, target and pid), and how it may end.

An attack that survives its own attempt must end with a value; `value` is what that may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.failure import ReasonKind as R

ANY = object()


@dataclass(frozen=True)
class Attack:
    name: str
    source: str
    ends: tuple[R, ...] = ()
    value: Any = ANY
    """When it returns: this, or anything; with `ends` empty it must return."""
    timeout: float = 5


def _attack(name: str, body: str, *ends: R, value: Any = ANY, timeout: float = 5) -> Attack:
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    return Attack(name, f"def check(port, secret, target, pid):\n{lines}\n", ends, value, timeout)


def _tried(name: str, *attempts: str) -> Attack:
    """Each attempt alone must fail with an exception; the value lists those that did not."""
    body = "done = []\n"
    for attempt in attempts:
        body += f"try:\n    {attempt}\n    done.append({attempt!r})\nexcept Exception:\n    pass\n"
    return _attack(name, body + "return done", value=[])


# The C library is in reach: the frames below the code hold it. Only the walls are left.
_LIBC = """
import sys
frame, libc = sys._getframe(), None
while frame is not None and libc is None:
    libc = frame.f_locals.get("libc")
    frame = frame.f_back
assert libc is not None
"""

ATTACKS: list[Attack] = [
    # Time.
    _attack("p16_p53_endless_loop", "while True: pass", R.TIMEOUT, timeout=0.4),
    _attack(
        "endless_loop_that_catches_everything",
        "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass",
        R.TIMEOUT,
        timeout=0.3,
    ),
    Attack("endless_loop_at_import", "while True: pass", (R.TIMEOUT,), timeout=0.3),
    _attack("sleeps_for_ever", "import time\ntime.sleep(3600)", R.TIMEOUT, timeout=0.3),
    _attack("catastrophic_regex", "import re\nre.match('(a+)+$', 'a' * 64 + 'b')", R.TIMEOUT, timeout=0.4),
    _attack("huge_integer", "return 9 ** 9 ** 9 % 7", R.TIMEOUT, R.LIMIT_EXCEEDED, timeout=0.4),
    _attack(
        "ignores_every_signal_and_loops",
        "import signal\nfor number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGALRM):\n"
        "    signal.signal(number, signal.SIG_IGN)\nwhile True: pass",
        R.TIMEOUT,
        timeout=0.3,
    ),
    _attack(
        "endless_iterator_in_c",
        "import itertools, collections\ncollections.deque(itertools.count(), maxlen=0)",
        R.TIMEOUT,
        timeout=0.3,
    ),
    # Memory and size.
    _attack("p53_two_gigabyte_list", "return len([0] * (2 * 1024 ** 3 // 8))", R.LIMIT_EXCEEDED),
    _attack(
        "memory_by_and_by", "kept = []\nwhile True: kept.append(bytearray(1 << 20))", R.LIMIT_EXCEEDED
    ),
    _attack("string_doubling", "s = 'x'\nwhile True: s += s", R.LIMIT_EXCEEDED),
    _attack("decompression_bomb", (
        "import zlib\nbomb = zlib.compress(bytes(100 << 20), 9)\n"
        "return len(zlib.decompress(bomb)) + len(zlib.decompress(bomb) * 2)"
    ), R.LIMIT_EXCEEDED),
    _attack("p53_prints_100_mb", "for _ in range(100): print('x' * 1_000_000)\nreturn 'ok'", value="ok"),
    _attack(
        "writes_100_mb_to_the_descriptors",
        "import os\nfor _ in range(100): os.write(1, b'x' * 1_000_000); os.write(2, b'x' * 1_000_000)\nreturn 'ok'",
        value="ok",
    ),
    _attack("result_of_10_mb", "return 'x' * 10_000_000", R.LIMIT_EXCEEDED),
    _attack("recursion", "return check(port, secret, target, pid)", R.LIMIT_EXCEEDED),
    _attack(
        "recursion_without_a_limit",
        "import sys\nsys.setrecursionlimit(2 ** 30)\nreturn check(port, secret, target, pid)",
        R.LIMIT_EXCEEDED, R.SANDBOX_FAILED, R.TIMEOUT,
        timeout=2,
    ),
    _attack(
        "recursion_in_the_parser", "return eval('-' * 3_000_000 + '1')",
        R.LIMIT_EXCEEDED, R.SANDBOX_FAILED, R.CODE_FAILED,
    ),
    _attack("digits_of_a_huge_integer", "return str(10 ** 20_000)", R.CODE_FAILED),
    _attack(
        "billion_laughs",
        "import xml.dom.minidom\nentities = ''.join(f'<!ENTITY a{n} \"' + f'&a{n - 1};' * 10 + '\">' for n in range(1, 10))\n"
        "return len(xml.dom.minidom.parseString(f'<!DOCTYPE x [<!ENTITY a0 \"ha\">{entities}]><x>&a9;</x>').toxml())",
        R.CODE_FAILED, R.LIMIT_EXCEEDED,
    ),
    # Files.
    _tried(
        "reads_the_host",
        "open(secret)", "open('/etc/passwd')", "open('/etc/shadow')", "open('/root/.bashrc')", "open('/dev/mem')",
        "open('/sys/kernel/notes')", "open(f'/proc/{pid}/environ')", "open('/proc/self/environ')", "open('/proc/1/mem')",
    ),
    _tried(
        "p53_writes_the_host",
        "open(target, 'w')", "open(secret, 'a')", "open('/tmp/pwned', 'w')", "open('/pwned', 'w')",
        "open('/inputs/pwned', 'w')", "open('/wyrd/pwned', 'w')", "open('/python/pwned', 'w')", "open('/dev/shm/pwned', 'w')",
    ),
    _tried(
        "changes_the_host",
        "import os; os.unlink(secret)", "import os; os.rename(secret, target)", "import os; os.chmod(secret, 0o777)",
        "import os; os.mkdir(target)", "import os; os.symlink(secret, target)", "import os; os.truncate(secret, 0)",
        "import os; os.mkfifo(target)", "import os; os.utime(secret, (0, 0))", "import os; os.chmod('/inputs', 0o777)",
    ),
    _attack(
        "lists_the_root",
        "import os\nreturn sorted(set(os.listdir('/')) - {'inputs', 'lib', 'lib64', 'python', 'usr', 'wyrd'})", value=[],
    ),
    _attack(
        "walks_for_foreign_files",
        "import os\nreturn [os.path.join(f, n) for f, _, names in os.walk('/') for n in names\n"
        "        if not f.startswith(('/python', '/usr/share/zoneinfo', '/lib', '/wyrd'))]",
        value=[],
    ),
    _tried("imports_installed_packages", "import pydantic", "import temporalio", "import pip", "import engine", "import wyrd"),
    # Network.
    _tried(
        "p53_opens_a_socket",
        "import socket; socket.create_connection(('127.0.0.1', port), timeout=1)",
        "import socket; socket.socket(socket.AF_UNIX)",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "import socket; socket.socketpair()",
        "import socket; socket.getaddrinfo('example.com', 80)",
        "import urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=1)",
        "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', port))",
    ),
    # Processes and threads.
    _tried(
        "starts_processes",
        "import os; os.fork()", "import os; os.posix_spawn('/python/bin/python3', ['python3'], {})",
        "import subprocess; subprocess.run(['/python/bin/python3', '-c', ''])",
        "import subprocess; subprocess.check_output('touch ' + target, shell=True)",
        "import os; os.execv('/python/bin/python3', ['python3', '-c', ''])", "import pty; pty.fork()",
        "import multiprocessing; multiprocessing.Process(target=int).start()",
        "import concurrent.futures as f; f.ProcessPoolExecutor(2).submit(int).result(1)",
    ),
    _attack("os_system", "import os\nreturn os.system('touch ' + target) != 0", value=True),
    _attack("p53_fork_bomb", (
        "import os\nfailed = 0\nfor _ in range(10_000):\n    try:\n        os.fork()\n    except OSError:\n"
        "        failed += 1\nreturn failed"
    ), value=10_000),
    _tried(
        "starts_threads",
        "import threading; threading.Thread(target=int).start()",
        "import concurrent.futures as f; f.ThreadPoolExecutor(2).submit(int).result(1)",
        "import _thread; _thread.start_new_thread(int, ())",
    ),
    _tried(
        "sends_signals",
        "import os; os.kill(1, 9)", "import os; os.kill(2, 9)", "import os; os.kill(-1, 9)", "import os; os.kill(0, 9)",
        "import os; os.kill(pid, 9)", "import os; os.killpg(0, 9)", "import signal; signal.pidfd_send_signal(3, 9)",
        "import os; os.pidfd_open(1)", "import signal; signal.raise_signal(9)",
    ),
    _tried(
        "raises_its_limits",
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))", "import resource as r; r.setrlimit(r.RLIMIT_CPU, (-1, -1))",
        "import resource as r; r.prlimit(2, r.RLIMIT_NOFILE, (0, 0))", "import os; os.nice(-5)", "import os; os.setuid(0)",
        "import os; os.sched_setaffinity(0, {0})", "import os; os.setsid()",
    ),
    # Environment and what was left in reach.
    _attack("p53_environment", "import os\nreturn [dict(os.environ), os.getenv('PATH'), os.getenv('CANARY')]",
            value=[{}, None, None]),
    _attack(
        "inherited_descriptors",
        "import os, stat\nopen_ = []\nfor d in range(3, 64):\n    try:\n        open_.append(stat.S_IFMT(os.fstat(d).st_mode))\n"
        "    except OSError:\n        pass\nreturn open_ == [stat.S_IFIFO]",
        value=True,
    ),
    _attack(
        "p53_object_graph_to_popen",
        "import subprocess\nfor c in ().__class__.__base__.__subclasses__():\n    if c.__name__ == 'Popen':\n"
        "        return c(['/python/bin/python3', '-c', '']).wait()",
        R.CODE_FAILED,
    ),
    _attack(
        "object_graph_to_os",
        "for c in ().__class__.__base__.__subclasses__():\n    found = getattr(c.__init__, '__globals__', {})\n"
        "    if 'sys' in found:\n        return found['sys'].modules['os'].system('touch ' + target) != 0",
        value=True,
    ),
    _attack(
        "p53_format_string_walk",
        "import json\ntext = '{0.__class__.__init__.__globals__}'.format(json.JSONDecoder())\n"
        "return 'canary-of-the-host' in text",
        value=False,
    ),
    _attack("p53_ctypes", "import ctypes\nctypes.CDLL(None).system(b'touch ' + target.encode())", R.CODE_FAILED),
    _attack(
        "c_library_from_the_frames_below",
        _LIBC + "\npath = target.encode()\n"
        "return [-(libc.system(b'touch ' + path) != 0), libc.open(path, 0o101, 0o666), libc.creat(path, 0o666), libc.fork(), libc.vfork(),\n"
        "        libc.socket(2, 1, 0), libc.unshare(0x10000000), libc.mount(b'none', b'/', b'tmpfs', 0, 0),\n"
        "        libc.kill(1, 9), libc.ptrace(16, 2, 0, 0), libc.setuid(0), libc.prctl(4, 1), libc.chroot(b'/inputs'),\n"
        "        libc.execv(b'/python/bin/python3', 0), libc.memfd_create(b'x', 0), libc.process_vm_readv(2, 0, 0, 0, 0, 0)]",
        value=[-1] * 16,
    ),
    _attack("executable_memory", _LIBC + "\nreturn libc.mmap(0, 4096, 7, 0x22, -1, 0)", value=-1),
    _attack("executable_memory_later", (
        _LIBC + "\nplace = libc.mmap(0, 4096, 3, 0x22, -1, 0)\nreturn libc.mprotect(place, 4096, 5) if place else -1"
    ), value=-1),
    _attack("unknown_system_call", _LIBC + "\nlibc.syscall(425, 8, 0)\nlibc.syscall(446, 0, 0)", R.SANDBOX_FAILED),
    _attack("jumps_into_the_void", _LIBC + "\nlibc.strlen(1)", R.SANDBOX_FAILED),
    _attack(
        "pickle_that_runs_a_program",
        "import pickle\nreturn pickle.loads(b'cposix\\nsystem\\n(S\"touch /tmp/pwned\"\\ntR.') != 0", value=True,
    ),
    _attack("mmap_executable", "import mmap\nmmap.mmap(-1, 4096, prot=7)", R.CODE_FAILED),
    _tried("shared_memory", "from multiprocessing import shared_memory as s; s.SharedMemory(create=True, size=8)"),
    _tried("debugger", "import sys; sys.stdin.readline() or (_ for _ in ()).throw(EOFError())", "breakpoint()"),
    # Ends.
    _attack("p53_del_writer", (
        "class Late:\n    def __del__(self):\n        open('/tmp/pwned', 'w').write('x')\n"
        "check.kept = Late()\nLate()\nreturn 'ok'"
    ), value="ok"),
    _attack("atexit_writer", (
        "import atexit, os\natexit.register(lambda: open(target, 'w').write('x'))\nreturn 'ok'"
    ), value="ok"),
    _attack("exits_quietly", "import os\nos._exit(0)", R.SANDBOX_FAILED),
    _attack("exits_loudly", "import os\nos._exit(9)", R.SANDBOX_FAILED),
    _attack("system_exit", "raise SystemExit(0)", R.CODE_FAILED),
    _attack("aborts", "import os\nos.abort()", R.SANDBOX_FAILED),
    _attack("faults", _LIBC + "\nlibc.memset(8, 0, 8)", R.SANDBOX_FAILED),
    # Results that lie or never end.
    _attack("p53_object_whose_eq_lies", (
        "class Liar:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\nreturn Liar()"
    ), R.CODE_FAILED),
    _attack("string_that_lies", (
        "class Liar(str):\n    def __str__(self): return 'lie'\n    def __eq__(self, other): return True\n"
        "    __hash__ = str.__hash__\nreturn {Liar('k'): Liar('truth')}"
    ), value={"k": "truth"}),
    _attack("mapping_that_never_ends", (
        "class Endless(dict):\n    def items(self):\n        while True: yield 'a', 1\n    __iter__ = items\nreturn Endless(a=1)"
    ), value={"a": 1}),
    _attack("generator_that_never_ends", "import itertools\nreturn itertools.count()", R.CODE_FAILED),
    _attack("pickle_as_a_result", (
        "class Boom:\n    def __reduce__(self): return (__import__('os').system, ('touch ' + target,))\nreturn Boom()"
    ), R.CODE_FAILED),
    _attack("list_that_holds_itself", "a = []\na.append(a)\nreturn a", R.CODE_FAILED),
    _attack("answer_that_never_ends", "import os\nwhile True: os.write(4, b'x' * 65536)", R.LIMIT_EXCEEDED),
    _attack("answer_of_its_own_and_a_second", (
        "import os\nos.write(4, b'{\"kind\":\"value\",\"stdout\":\"\"}\\n{\"outcome\":\"passed\"}')\nreturn {'outcome': 'failed'}"
    ), R.CODE_FAILED),
    _attack("answer_of_garbage", "import os\nos.write(4, bytes(range(256)))\nos._exit(0)", R.CODE_FAILED),
    _attack("answer_that_names_our_failures", (
        "import os\nos.write(4, b'{\"kind\":\"sandbox_unavailable\",\"stdout\":\"\"}\\nnull')\nos._exit(0)"
    ), R.CODE_FAILED),
    _attack("answer_with_a_duplicate_key", (
        "import os\nos.write(4, b'{\"kind\":\"value\",\"stdout\":\"\"}\\n{\"outcome\":\"failed\",\"outcome\":\"passed\"}')\nos._exit(0)"
    ), R.CODE_FAILED),
    _attack("patched_encoder", (
        "import json, builtins\njson.dumps = lambda *a, **k: '{\"kind\":\"value\"} NaN'\n"
        "builtins.isinstance = lambda *a: True\nreturn object()"
    ), R.CODE_FAILED),
    _attack("exception_that_lies", (
        "class Liar(Exception):\n    def __str__(self): raise self\nraise Liar()"
    ), R.CODE_FAILED),
    _attack("exception_with_an_endless_message", "raise ValueError('x' * 50_000_000)", R.CODE_FAILED),
    _attack("exception_that_never_ends", (
        "class Endless(Exception):\n    def __str__(self):\n        while True: pass\nraise Endless()"
    ), R.TIMEOUT, timeout=0.3),
]  # fmt: skip
