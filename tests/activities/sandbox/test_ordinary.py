# ruff: noqa: E501 - one check a line reads as the table it is
"""Realistic checks run as on any Python: the standard library is there."""

from __future__ import annotations

import hashlib
import textwrap
from typing import Any

import pytest

from activities.sandbox import Sandbox
from tests.activities.sandbox.host import NOW, code

pytestmark = pytest.mark.asyncio(loop_scope="module")

# name: (source of `check(value)`, value, answer)
CHECKS: dict[str, tuple[str, Any, Any]] = {
    "json": ("import json\nreturn json.loads(json.dumps(value, sort_keys=True))", {"b": [1, 2.5, None]}, {"b": [1, 2.5, None]}),
    "re": (r"import re" "\n" r"return re.findall(r'(?P<key>\w+)=(\d+)', value)", "a=1 b=22", [["a", "1"], ["b", "22"]]),
    "datetime": (
        "from datetime import datetime, timedelta, timezone\nbought = datetime.fromisoformat(value)\n"
        "return [(datetime.now(timezone.utc) - bought).days <= 30, (bought + timedelta(days=30)).date().isoformat(), isinstance(bought, datetime)]",
        "2026-03-01T10:00:00+00:00",
        [True, "2026-03-31", True],
    ),
    "strptime": ("from datetime import datetime\nreturn datetime.strptime(value, '%d %B %Y').strftime('%Y-%m-%d %A')", "14 March 2026", "2026-03-14 Saturday"),
    "zoneinfo": (
        "from datetime import datetime\nfrom zoneinfo import ZoneInfo\n"
        "return datetime.fromisoformat(value).astimezone(ZoneInfo('America/New_York')).isoformat()",
        "2026-07-01T12:00:00+00:00",
        "2026-07-01T08:00:00-04:00",
    ),
    "calendar": ("import calendar\nreturn calendar.monthrange(value, 2)[1]", 2028, 29),
    "statistics": ("import statistics as s\nreturn [s.mean(value), s.median(value), round(s.stdev(value), 6)]", [1, 2, 3, 10], [4, 2.5, 4.082483]),
    "decimal": ("from decimal import Decimal\nreturn str(sum(Decimal(v) for v in value))", ["0.1", "0.2", "99.70"], "100.00"),
    "fractions": ("from fractions import Fraction\nreturn str(Fraction(value) + Fraction(1, 6))", "1/3", "1/2"),
    "math": ("import math\nreturn [math.isclose(value, 0.3), math.gcd(12, 18), math.comb(5, 2), math.floor(-0.5)]", 0.1 + 0.2, [True, 6, 10, -1]),
    "cmath": ("import cmath\nreturn round(abs(cmath.exp(1j * cmath.pi) + value), 9)", 1, 0.0),
    "collections": (
        "from collections import Counter, OrderedDict, defaultdict, deque, namedtuple\ngroups = defaultdict(list)\n"
        "for word in value: groups[len(word)].append(word)\nreturn {'top': Counter(value).most_common(1), 'sizes': sorted(groups), 'last': list(deque(value, maxlen=1)), 'n': namedtuple('N', 'a b')(1, 2)}",
        ["a", "bb", "a"],
        {"top": [["a", 2]], "sizes": [1, 2], "last": ["a"], "n": [1, 2]},
    ),
    "dataclasses": (
        "from dataclasses import dataclass, field, asdict\n@dataclass(order=True)\nclass Line:\n    text: str\n    tags: list[str] = field(default_factory=list)\n"
        "return asdict(Line(value))",
        "x",
        {"text": "x", "tags": []},
    ),
    "enum": ("from enum import Enum, IntEnum, StrEnum\nclass Mood(StrEnum):\n    GOOD = 'good'\nclass Level(IntEnum):\n    LOW = 1\nreturn {Mood(value): Level.LOW}", "good", {"good": 1}),
    "typing": ("from typing import NamedTuple, TypedDict, get_type_hints\nclass Row(TypedDict):\n    a: int\nreturn sorted(get_type_hints(Row)) + [value]", "v", ["a", "v"]),
    "csv": ("import csv, io\nreturn list(csv.DictReader(io.StringIO(value)))", 'a,b\n1,"x, y"\n', [{"a": "1", "b": "x, y"}]),
    "textwrap": ("import textwrap\nreturn textwrap.wrap(textwrap.dedent(value), 10)", "  one two three four", ["one two", "three four"]),
    "html": ("import html\nfrom html.parser import HTMLParser\nclass Text(HTMLParser):\n    seen = ''\n    def handle_data(self, data): self.seen += data\np = Text()\np.feed(value)\nreturn [p.seen, html.escape('<')]", "<b>a &amp; b</b>", ["a & b", "&lt;"]),
    "urllib_parse": ("from urllib.parse import urlsplit, parse_qs, quote\nu = urlsplit(value)\nreturn [u.hostname, parse_qs(u.query), quote('a b')]", "https://ex.com/p?q=1&q=2", ["ex.com", {"q": ["1", "2"]}, "a%20b"]),
    "unicodedata": ("import unicodedata\nreturn unicodedata.normalize('NFKD', value).encode('ascii', 'ignore').decode()", "Çafé ﬁn", "Cafe fin"),
    "hashlib": ("import hashlib, hmac\nreturn [hashlib.sha256(value.encode()).hexdigest()[:8], hashlib.md5(b'').hexdigest()[:4], hashlib.blake2b(b'').hexdigest()[:4], hmac.new(b'k', b'm', 'sha1').hexdigest()[:4]]", "x", ["2d711642", "d41d", "786a", "772b"]),
    "base64": ("import base64, binascii\nreturn [base64.b64decode(value).decode(), binascii.hexlify(b'a').decode(), base64.urlsafe_b64encode(b'??>').decode()]", "aGk=", ["hi", "61", "Pz8-"]),
    "itertools": ("import itertools as i\nreturn [list(i.chain(*value)), list(map(list, i.combinations('abc', 2))), list(i.accumulate([1, 2, 3]))]", [[1], [2]], [[1, 2], [["a", "b"], ["a", "c"], ["b", "c"]], [1, 3, 6]]),
    "functools": ("import functools, operator\n@functools.lru_cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nreturn functools.reduce(operator.add, [fib(value), 1])", 30, 832041),
    "difflib": ("import difflib\nreturn [round(difflib.SequenceMatcher(None, value, 'colour').ratio(), 3), difflib.get_close_matches('appel', ['apple', 'ape'])[0]]", "color", [0.909, "apple"]),
    "string": ("import string\nreturn string.Template(value).substitute(who='you') + string.ascii_lowercase[:3]", "hi $who ", "hi you abc"),
    "random": ("import random\nrandom.seed(value)\nreturn sorted(random.sample(range(100), 3)) == sorted(random.Random(value).sample(range(100), 3))", 7, True),
    "heapq_bisect": ("import heapq, bisect\nreturn [heapq.nlargest(2, value), bisect.bisect([1, 3], 2)]", [3, 9, 4], [[9, 4], 1]),
    "struct_array": ("import struct, array\nreturn [struct.unpack('>H', bytes(value))[0], sum(array.array('i', [1, 2]))]", [1, 2], [258, 3]),
    "xml": ("import xml.etree.ElementTree as E\nreturn [node.text for node in E.fromstring(value).iter('i')]", "<r><i>1</i><i>2</i></r>", ["1", "2"]),
    "ipaddress": ("import ipaddress\nreturn ipaddress.ip_address(value) in ipaddress.ip_network('10.0.0.0/8')", "10.1.2.3", True),
    "email": ("from email import message_from_string\nfrom email.utils import parseaddr\nm = message_from_string(value)\nreturn [m['Subject'], parseaddr(m['From'])[1]]", "From: A <a@b.c>\nSubject: s\n\nbody", ["s", "a@b.c"]),
    "ast": ("import ast\nreturn [n.name for n in ast.walk(ast.parse(value)) if isinstance(n, ast.FunctionDef)]", "def f(): pass", ["f"]),
    "tomllib_configparser": ("import tomllib, configparser\nc = configparser.ConfigParser()\nc.read_string('[a]\\nb = 1')\nreturn [tomllib.loads(value), c['a']['b']]", "x = [1]", [{"x": [1]}, "1"]),
    "zlib_gzip_zipfile": ("import gzip, io, zipfile, zlib\nb = io.BytesIO()\nwith zipfile.ZipFile(b, 'w') as z: z.writestr('a', value)\nreturn [zipfile.ZipFile(b).read('a').decode(), gzip.decompress(gzip.compress(b'g')).decode(), zlib.crc32(b'x')]", "v", ["v", "g", 2363233923]),
    "codecs": ("return [value.encode('cp1252').hex(), b'\\x83\\x65'.decode('shift_jis'), 'bücher'.encode('idna').decode(), bytes.fromhex('fffe6100').decode('utf-16')]", "é", ["e9", "テ", "xn--bcher-kva", "a"]),
    "classes_generators_matching": ("class Stack(list):\n    @property\n    def top(self): return self[-1]\ndef numbers():\n    yield from range(value)\nmatch Stack(numbers()):\n    case [first, *_, last]: return {'first': first, 'last': last}", 3, {"first": 0, "last": 2}),
    "logging_and_warnings": ("import logging, warnings\nlogging.getLogger('x').warning('w')\nwarnings.warn('careful')\nreturn value", 1, 1),
    "copy_pprint_inspect": ("import copy, inspect, pprint\nreturn [copy.deepcopy(value), pprint.pformat(value), inspect.signature(check).parameters['value'].name]", {"a": [1]}, [{"a": [1]}, "{'a': [1]}", "value"]),
    "sqlite_in_memory": ("import sqlite3\nd = sqlite3.connect(':memory:')\nd.execute('create table t (a)')\nd.executemany('insert into t values (?)', [(v,) for v in value])\nreturn d.execute('select sum(a) from t').fetchone()[0]", [1, 2, 3], 6),
    "pathlib": ("from pathlib import PurePosixPath\np = PurePosixPath(value)\nreturn [p.suffix, p.stem, p.parent.name]", "/a/b/c.txt", [".txt", "c", "b"]),
    "exceptions": ("try:\n    int(value)\nexcept ValueError as error:\n    return {'outcome': 'failed', 'reason': str(error), 'citations': []}", "x", {"outcome": "failed", "reason": "invalid literal for int() with base 10: 'x'", "citations": []}),
    "big_integers": ("return [value * value, pow(3, 1000, 10**9 + 7)]", 10**40, [10**80, 56888193]),
    "shlex_fnmatch_graphlib": ("import shlex, fnmatch, graphlib\nreturn [shlex.split(value), fnmatch.filter(['a.py', 'b'], '*.py'), list(graphlib.TopologicalSorter({'b': ['a']}).static_order())]", "a 'b c'", [["a", "b c"], ["a.py"], ["a", "b"]]),
    "uuid": ("import uuid\nreturn [str(uuid.UUID(value)), uuid.uuid5(uuid.NAMESPACE_DNS, 'x').version, uuid.uuid4().version]", "{12345678123456781234567812345678}", ["12345678-1234-5678-1234-567812345678", 5, 4]),
}  # fmt: skip


def source_of(body: str) -> str:
    return "def check(value):\n" + textwrap.indent(body, "    ") + "\n"


@pytest.mark.parametrize("name", CHECKS)
async def test_realistic_check_runs(name: str, sandbox: Sandbox) -> None:
    body, value, answer = CHECKS[name]
    reply = await sandbox.call(code(source_of(body), inputs={"value": value}))
    assert reply.value == answer
    assert (reply.engine, reply.python) == ("bubblewrap", sandbox.python_version)


TICKET_COMPLETE = """\
def check(ticket):
    missing = [field for field in ("answer", "order_id") if not ticket.get(field)]
    return {
        "outcome": "failed" if missing else "passed",
        "reason": "missing " + ", ".join(missing) if missing else "all fields present",
        "citations": [{"slot": "ticket", "locator": {"json_pointer": ""}}],
    }
"""


@pytest.mark.parametrize(
    ("ticket", "outcome", "reason"),
    [
        ({"answer": "Yes.", "order_id": "A-1"}, "passed", "all fields present"),
        ({"answer": "Yes."}, "failed", "missing order_id"),
        ({}, "failed", "missing answer, order_id"),
    ],
)
async def test_ticket_complete_check_of_the_support_desk_runs(
    ticket: dict[str, str], outcome: str, reason: str, sandbox: Sandbox
) -> None:
    reply = await sandbox.call(code(TICKET_COMPLETE, inputs={"ticket": ticket}))
    assert reply.value == {
        "outcome": outcome,
        "reason": reason,
        "citations": [{"slot": "ticket", "locator": {"json_pointer": ""}}],
    }
    assert reply.stdout == ""


async def test_inputs_reach_the_code_exactly(sandbox: Sandbox) -> None:
    value = {"": [10**4000, -0.0, 1e308, 5e-324, True, None, "\u2028\ud7ff\U0001f600\x00"], "ключ": {"a": []}}
    reply = await sandbox.call(code("def check(value): return value", inputs={"value": value}))
    assert repr(reply.value) == repr(value)


async def test_what_the_code_prints_comes_back_beside_its_value(sandbox: Sandbox) -> None:
    source = "import sys\ndef check():\n print('one', NOW := 2)\n print('two', file=sys.stderr)\n sys.stdout.buffer.write(b'\\xff')\n return 1"
    assert (await sandbox.call(code(source))).stdout == "one 2\ntwo\n\ufffd"


async def test_reply_names_the_source_it_ran(sandbox: Sandbox) -> None:
    reply = await sandbox.call(code("def check(): return 'é'"))
    assert reply.source_sha256 == hashlib.sha256("def check(): return 'é'".encode()).hexdigest()


async def test_clock_inside_reads_the_given_moment(sandbox: Sandbox) -> None:
    source = "import datetime\ndef check(): return datetime.datetime.now(datetime.timezone.utc).isoformat()"
    assert (await sandbox.call(code(source))).value == NOW.isoformat()
