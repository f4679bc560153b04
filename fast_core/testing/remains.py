"""What a part may leave behind in this process."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple, Self


class Remains(NamedTuple):
    """Threads, child processes and open files, by their numbers.

    Attributes:
        threads: Python's, by their names.
        processes: Ids of children.
        files: Descriptors.
    """

    threads: frozenset[str]
    processes: frozenset[int]
    files: frozenset[int]

    @classmethod
    def now(cls) -> Self:
        """What there is."""
        children: set[int] = set()
        for task in Path("/proc/self/task").glob("*/children"):
            children |= {int(pid) for pid in task.read_text().split()}
        files = {int(name) for name in os.listdir("/proc/self/fd")}
        threads = {f"{each.name} ({each.ident})" for each in threading.enumerate()}
        return cls(frozenset(threads), frozenset(children), frozenset(files))

    def beyond(self, before: Remains) -> str:
        """What there is and was not ``before``, in words; empty where there is nothing."""
        words = []
        if threads := self.threads - before.threads:
            words.append(f"threads {', '.join(sorted(threads))}")
        if processes := self.processes - before.processes:
            words.append(f"processes {', '.join(map(str, sorted(processes)))}")
        if len(self.files) > len(before.files):
            words.append(f"{len(self.files) - len(before.files)} open files")
        return " and ".join(words)
