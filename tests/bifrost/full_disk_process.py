"""A publisher whose disk is full, in a process of its own, because what makes it full holds for one.

Called with the database's URL and the home. Each line it reads is an order and a number, and it answers
each with a line of JSON that says what there is then:

* `put N` puts N tickets into the outbox, or as many as are taken; `put large N` such of 16 kB;
* `limit N` lets no file grow beyond N bytes, -1 any;
* `room N` makes the file system at the home N MiB large;
* `publish 0` publishes all that waits, as far as it can be.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import resource
import subprocess
import sys
from pathlib import Path

from tests.bifrost.published import Desk
from tests.conftest import opened
from wyrd.errors import WyrdError


class _Disk:
    def __init__(self, url: str, home: Path) -> None:
        self._home = home
        self._database = opened(url)
        self._desk = Desk(self._database, home)
        self._random = random.Random(507)
        self._acknowledged: list[str] = []
        self._refusal = ""
        self._published = 0

    def obey(self, order: str, number: int) -> None:
        self._refusal, self._published = "", 0
        if order.startswith("put"):
            self._put(number, 8000 if order == "put large" else 8)
        elif order == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (number, resource.RLIM_INFINITY))
        elif order == "room":
            subprocess.run(["mount", "-o", f"remount,size={number}m", str(self._home)], check=True)
        else:
            self._published = asyncio.run(self._desk.publisher.pass_once(everything=True))

    def _put(self, count: int, size: int) -> None:
        for _ in range(count):
            ticket = self._random.randbytes(size).hex()
            try:
                self._desk.put(ticket)
            except WyrdError as error:
                self._refusal = error.code
                return
            self._acknowledged.append(ticket)

    def told(self) -> str:
        return json.dumps(
            {
                "refusal": self._refusal,
                "published": self._published,
                "acknowledged": len(self._acknowledged),
                "waiting": self._desk.waiting(),
                "whole": self._desk.ids() == sorted(self._acknowledged),
                "in_iceberg": len(self._desk.iceberg_ids()),
            }
        )

    def close(self) -> None:
        self._desk.close()
        self._database.close()


def _main(url: str, home: str) -> None:
    # What is logged may go to a file, which would meet the limit as well.
    logging.disable()
    disk = _Disk(url, Path(home))
    for line in sys.stdin:
        order, _, number = line.rpartition(" ")
        disk.obey(order, int(number))
        sys.stdout.write(f"{disk.told()}\n")
        sys.stdout.flush()
    disk.close()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
