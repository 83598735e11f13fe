from __future__ import annotations

from pathlib import Path

import pytest

from lsp_bridge.language_client.server.diagnostics_freshness import DiagnosticsTracker, Settling

FILE, OTHER = Path("/w/a"), Path("/w/b")
BAD = ({"message": "bad"},)
WAITS = Settling(versioned_s=0.1, unversioned_s=0.3, doubtful_s=1.5)


def opened(text: str = "old") -> tuple[DiagnosticsTracker, int]:
    answers = DiagnosticsTracker(WAITS)
    kind, version = answers.sync(FILE, text, now=0.0, pull=False)
    assert kind == "open"
    return answers, version


def settled(answers: DiagnosticsTracker, version: int) -> float | None:
    return answers.settled_at(FILE, version, pull=False)


def test_a_push_about_the_version_settles_soon() -> None:
    answers, version = opened()
    answers.push(FILE, version, (), now=2.0)
    assert settled(answers, version) == 2.1


def test_a_push_about_an_older_version_answers_nothing() -> None:
    answers, old = opened()
    _, new = answers.sync(FILE, "new", now=1.0, pull=False)
    assert answers.push(FILE, old, BAD, now=2.0)
    assert settled(answers, new) is None
    assert answers.known(FILE, new) is None


def test_a_push_about_a_version_never_sent_is_ignored() -> None:
    answers, version = opened()
    assert not answers.push(FILE, version + 1, (), now=2.0)
    assert settled(answers, version) is None


def test_an_older_push_does_not_replace_a_newer_one() -> None:
    answers, old = opened()
    _, new = answers.sync(FILE, "new", now=1.0, pull=False)
    answers.push(FILE, new, BAD, now=2.0)
    assert not answers.push(FILE, old, (), now=2.5)
    assert answers.known(FILE, new) == BAD


def test_a_push_before_the_change_does_not_answer_it() -> None:
    answers, _ = opened()
    answers.push(FILE, None, (), now=0.5)
    _, new = answers.sync(FILE, "new", now=1.0, pull=False)
    assert settled(answers, new) is None


def test_unversioned_push_restarts_the_settle_time() -> None:
    answers, _ = opened()
    answers.push(FILE, None, (), now=0.0)
    _, new = answers.sync(FILE, "new", now=1.0, pull=False)
    answers.push(FILE, None, (), now=2.0)
    assert settled(answers, new) == 2.3
    answers.push(FILE, None, BAD, now=2.2)
    assert settled(answers, new) == 2.5


def test_unversioned_push_is_doubtful_while_old_text_is_pending() -> None:
    answers, _ = opened()
    _, new = answers.sync(FILE, "new", now=1.0, pull=False)
    answers.push(FILE, None, (), now=2.0)
    assert settled(answers, new) == 3.5


def test_the_same_text_is_not_sent_twice() -> None:
    answers, version = opened()
    assert answers.sync(FILE, "old", now=1.0, pull=False) == ("same", version)


def test_closed_file_is_dropped_and_versions_never_repeat() -> None:
    answers, version = opened()
    answers.push(FILE, version, BAD, now=0.5)
    assert answers.close(FILE)
    assert answers.known(FILE) is None
    assert not answers.close(FILE)
    _, again = answers.sync(FILE, "old", now=1.0, pull=False)
    assert again > version
    assert settled(answers, again) is None


def test_a_pulled_answer_is_final_at_once() -> None:
    answers, version = opened()
    answers.pull(FILE, version, BAD, now=2.0)
    assert answers.settled_at(FILE, version, pull=True) == 2.0


def test_a_pulled_answer_about_an_older_version_answers_nothing() -> None:
    answers, old = opened()
    _, new = answers.sync(FILE, "new", now=1.0, pull=True)
    answers.pull(FILE, old, (), now=2.0)
    assert answers.settled_at(FILE, new, pull=True) is None


def test_pushed_and_pulled_diagnostics_are_merged() -> None:
    answers, version = opened()
    answers.pull(FILE, version, ({"message": "a"}, {"message": "b"}), now=2.0)
    answers.push(FILE, version, ({"message": "b"}, {"message": "c"}), now=2.0)
    assert sorted(item["message"] for item in answers.known(FILE, version) or ()) == ["a", "b", "c"]


def test_push_about_the_old_text_is_not_mixed_into_the_pull() -> None:
    answers, old = opened()
    answers.push(FILE, old, BAD, now=0.5)
    _, new = answers.sync(FILE, "new", now=1.0, pull=True)
    answers.pull(FILE, new, (), now=2.0)
    assert answers.known(FILE, new) == ()


def test_push_about_a_closed_file_is_kept_for_comparison() -> None:
    answers, _ = opened()
    mark = answers.count
    answers.push(OTHER, None, BAD, now=1.0)
    assert answers.said_after(mark) == [OTHER]
    assert answers.snapshot() == {OTHER: BAD}
    answers.push(OTHER, None, (), now=2.0)
    assert answers.snapshot() == {}


def test_early_empty_push_extends_the_settle_time_from_then_on() -> None:
    answers, _ = opened()
    _, first = answers.sync(FILE, "one", now=1.0, pull=False)
    answers.push(FILE, first, (), now=1.1)
    assert settled(answers, first) == pytest.approx(1.2)
    answers.push(FILE, first, BAD, now=1.5)
    _, second = answers.sync(FILE, "two", now=3.0, pull=False)
    answers.push(FILE, second, (), now=3.1)
    assert settled(answers, second) == pytest.approx(3.7)
    answers.push(FILE, second, BAD, now=3.5)
    assert settled(answers, second) == pytest.approx(3.6)


def test_unusual_pause_is_eventually_disregarded() -> None:
    answers, _ = opened()
    _, version = answers.sync(FILE, "one", now=1.0, pull=False)
    answers.push(FILE, version, (), now=1.1)
    answers.push(FILE, version, BAD, now=2.0)
    at = 0.0
    for number in range(6):
        at = 10.0 * (number + 1)
        _, version = answers.sync(FILE, f"text {number}", now=at, pull=False)
        answers.push(FILE, version, (), now=at + 0.1)
    assert settled(answers, version) == pytest.approx(at + 0.2)


def test_first_look_and_other_files_do_not_extend_settle_time() -> None:
    answers, version = opened()
    answers.push(FILE, version, (), now=0.1)
    answers.push(FILE, version, BAD, now=1.0)
    assert answers.empty_first_s == 0.0
    _, version = answers.sync(FILE, "one", now=2.0, pull=False)
    answers.push(FILE, version, (), now=2.1)
    answers.sync(OTHER, "other", now=2.2, pull=False)
    answers.push(FILE, version, BAD, now=2.5)
    assert answers.empty_first_s == 0.0
