from __future__ import annotations

import queue
import threading

from millstream.errors import RunError
from millstream.runtime.real_time.call_limit import CallLimit


def test_a_function_that_does_not_return_is_reported_by_its_name() -> None:
    errors: queue.SimpleQueue[RunError] = queue.SimpleQueue()
    limit = CallLimit(100, errors.put)
    release = threading.Event()

    def ask_a_server_that_does_not_answer() -> None:
        release.wait(60)

    def work() -> None:
        with limit.calling("task 1_3"):
            ask_a_server_that_does_not_answer()

    thread = threading.Thread(target=work)
    thread.start()
    error = errors.get(timeout=60)
    release.set()
    thread.join()
    limit.close()
    assert error.message.startswith("task 1_3: ask_a_server_that_does_not_answer (")
    assert error.message.endswith("has not returned for 100 ms")
    assert errors.empty()


def test_functions_that_return_in_time_are_not_reported() -> None:
    errors: list[RunError] = []
    limit = CallLimit(60_000, errors.append)
    for number in range(1000):
        with limit.calling(f"task 0_{number}"):
            pass
    limit.close()
    assert errors == []
