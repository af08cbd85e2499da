"""Builds of later stages while tests wait, by processes that get only the CPU time that others leave. Standard library only.

A run without a compiler cache builds for longer than it tests, one after the other, and half of the tests wait for timers and for
each other. What was built ahead the stage finds done; what was not, it builds itself, and it alone reports what fails. Nothing is
built ahead beside a stage's own building, nor while a test has its second chance, alone.
"""
import contextlib
import os
import signal
import subprocess
import threading
import time

# SCHED_IDLE: anybody else who can run, does; but a kernel with CONFIG_SCHED_AUTOGROUP divides the time among sessions first, and
# takes this one's priority from its autogroup alone (sched(7)).
WITH_IDLE_TIME = ("sh", "-c", 'echo 19 2>&- >/proc/self/autogroup; exec chrt --idle 0 "$@"', "sh")
ENDS_WITHIN = 20  # policy: seconds, from SIGTERM to SIGKILL


class BuildAhead:
    """Builds of `stages`, in their order: each as soon as what its stage needs has passed."""

    def __init__(self, stages, log, folder):
        self._todo = [(stage, command) for stage in stages if stage.needs for command in stage.commands if command.builds]
        self._log, self._folder = log, folder
        self._passed, self._holders, self._has_ended = set(), 0, False
        self._child, self._kill_at = None, None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with self._changed:
            self._has_ended = True
            self._stop()
        self._thread.join()

    def passed(self, stage):
        with self._changed:
            self._passed.add(stage)
            self._changed.notify_all()

    @contextlib.contextmanager
    def held(self, stage=None):
        """Nothing is built ahead meanwhile; nor is what `stage` builds afterwards: it is about to do so itself."""
        with self._changed:
            self._holders += 1
            self._todo = [each for each in self._todo if each[0] is not stage]
            self._stop()
            self._changed.wait_for(lambda: self._child is None)
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()

    def _stop(self):
        """Ninja's compilers are in groups of their own, which it ends itself if it is told to end."""
        self._changed.notify_all()
        if self._child is not None and self._kill_at is None:
            self._kill_at = time.monotonic() + ENDS_WITHIN
            self._signal(signal.SIGTERM)

    def _signal(self, number):
        with contextlib.suppress(ProcessLookupError):  # the last of the group has just ended
            os.killpg(self._child.pid, number)

    def _next(self):
        """The first of the builds whose turn has come; a stage's are in order."""
        return next((each for each in self._todo if set(each[0].needs) <= self._passed), None)

    def _work(self):
        with self._changed, open(self._log, "w", encoding="utf-8") as log:
            while True:
                self._changed.wait_for(lambda: self._has_ended or not self._holders and self._next())
                if self._has_ended:
                    return
                chosen = self._next()
                command = chosen[1]
                log.write(f"\n$ {command.shown()}\n")
                log.flush()
                self._child = subprocess.Popen((*WITH_IDLE_TIME, *command.argv), cwd=self._folder, stdout=log, stderr=subprocess.STDOUT,
                                               stdin=subprocess.DEVNULL, env={**os.environ, **command.variables()}, start_new_session=True)
                self._wait_for_child()
                if self._kill_at is None and chosen in self._todo:
                    self._todo.remove(chosen)
                self._child, self._kill_at = None, None
                self._changed.notify_all()

    def _wait_for_child(self):
        while True:
            self._changed.release()
            try:
                self._child.wait(0.2)
                return
            except subprocess.TimeoutExpired:
                pass
            finally:
                self._changed.acquire()
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                self._signal(signal.SIGKILL)
