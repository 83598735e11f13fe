"""The editors' extensions and the daemon's servers as one: who is asked, and what counts."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.diagnostics.sources import (
    Change,
    FreshDiagnostics,
    Observer,
    OtherFile,
    Read,
    Source,
    SourceWatch,
    Texts,
)
from lsp_bridge.language_client.diagnostics.verdict import Raw
from lsp_bridge.language_client.text.positions import read_source
from lsp_bridge.language_client.text.problems import MAX_RAW
from lsp_bridge.server.editor.clients import EditorPeer, EditorPeers, PeerGoneError, uri_in
from lsp_bridge.server.editor.editor_source import EditorSource, EditorTiming, checked, text_hash
from tests.support.drivers.waiting import until
from tests.support.fakes.editor_peer import FakeEditor, diagnostic, never, pending, refusing
from tools.language_ports import CurrentProblems, DiagnosticsReport, Severity

SOON = EditorTiming(answer_s=5.0, baseline_s=5.0, trial_s=5.0, grace_s=0.1)
HASTY = EditorTiming(answer_s=0.1, baseline_s=0.1, trial_s=0.1, grace_s=0.05)
HANG_S = 30.0


class OwnServers(Source):
    """Fake servers of the daemon that give scripted answers and record their input."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.warmed: list[Path] = []
        self.begun: list[Path] = []
        self.told: list[Path] = []
        self.broken: dict[Path, Raw] = {}
        self.ended = 0

    def begin(self, change: Change) -> OwnWatch:
        return OwnWatch(self)

    async def warm(self, path: Path) -> bool:
        self.warmed.append(path)
        return True

    async def changed(self, path: Path, *, buffer: bool = False) -> None:
        self.told.append(path)

    async def current(self, paths: Sequence[Path], least: Severity) -> CurrentProblems:
        self.begun += paths
        return CurrentProblems((), ("own",))

    async def close(self) -> None: ...


class OwnWatch(SourceWatch):
    def __init__(self, servers: OwnServers) -> None:
        self.servers = servers
        self.paths: list[Path] = []

    async def extend(self, texts: Texts) -> list[Path]:
        self.paths += texts
        self.servers.begun += texts
        return self.paths

    async def observers(self, after: Texts) -> tuple[list[Observer], list[str]]:
        self.servers.told += [path for path in after if path not in self.paths]
        return [OwnServer(self.servers, self.paths)] if self.paths else [], []

    def end(self) -> None:
        self.servers.ended += 1


class OwnServer(Observer):
    def __init__(self, servers: OwnServers, paths: Sequence[Path]) -> None:
        super().__init__("own", "own")
        self.servers, self.paths = servers, paths

    @property
    def gone(self) -> bool:
        return False

    async def ask(self, after: Texts, started: float) -> FreshDiagnostics:
        fresh = {path: (after[path] or "", self.servers.broken.get(path, ())) for path in self.paths}
        return FreshDiagnostics(fresh, {path: () for path in self.paths})

    async def others(self, said: object = None) -> list[OtherFile]:
        return []

    async def again(self, texts: Texts) -> dict[Path, Raw]:
        return {}


class Scene:
    """A workspace, the eyes under test, and editors that come and go."""

    def __init__(self, root: Path, timing: EditorTiming = SOON, read: Read = read_source) -> None:
        self.root = root.resolve()
        self.servers = OwnServers(read)
        self.peers = EditorPeers()
        self.editors = EditorSource(self.peers, read, timing=timing)
        self.services = DiagnosticsService(self.root, [self.editors, self.servers])

    def attach(self, editor: FakeEditor) -> EditorPeer:
        peer = EditorPeer(editor.name, editor.answer)
        self.peers.add(peer)
        return peer

    def write(self, **texts: str | None) -> list[Path]:
        paths = {self.root / name.replace("_", "."): text for name, text in texts.items()}
        for path, text in paths.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        return list(paths)

    async def change(self, **texts: str | None) -> DiagnosticsReport:
        paths = [self.root / name.replace("_", ".") for name in texts]
        run = await self.services.begin(paths)
        self.write(**texts)
        return await asyncio.wait_for(run.report(), HANG_S)


def lines(report: DiagnosticsReport) -> list[tuple[str, int]]:
    return [(problem.path.name, problem.line) for problem in report.problems]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_editor_answer_is_the_verdict_and_no_server_is_started(scene: Scene) -> None:
    scene.write(a_bad="BAD of old\nfine\n")
    scene.attach(FakeEditor())
    broken = await scene.change(a_bad="new line\nBAD of old\nBAD\n")
    assert (broken.verdict, lines(broken), broken.servers) == ("problems", [("a.bad", 3)], ("VS Code",))
    mended = await scene.change(a_bad="new line\nBAD of old\n")
    assert (mended.verdict, mended.servers, mended.silent) == ("clean", ("VS Code",), ())
    assert scene.servers.begun == [], "no server is started"
    assert scene.servers.told == [scene.root / "a.bad"] * 2, "those that run are told all the same"


async def test_without_an_editor_the_servers_alone_are_asked(scene: Scene) -> None:
    assert (await scene.change(a_bad="BAD")).servers == ("own",)
    assert scene.servers.begun == [scene.root / "a.bad"]


async def test_files_of_both_kinds_are_judged_together(scene: Scene) -> None:
    scene.attach(FakeEditor())
    scene.servers.broken[scene.root / "b.py"] = (diagnostic(0, "wrong", source="own"),)
    report = await scene.change(a_bad="BAD\n", b_py="x\n")
    assert lines(report) == [("a.bad", 1), ("b.py", 1)]
    assert set(report.servers) == {"own", "VS Code"}
    assert scene.servers.begun == [scene.root / "b.py"]


async def test_two_editors_are_asked_and_equal_problems_are_merged(scene: Scene) -> None:
    scene.attach(FakeEditor("one"))
    scene.attach(FakeEditor("two"))
    report = await scene.change(a_bad="BAD\n")
    assert lines(report) == [("a.bad", 1)]
    assert set(report.servers) == {"one", "two"}


@pytest.mark.parametrize("answer", [never, pending, refusing])
async def test_unresponsive_editor_gives_no_fresh_answer_in_time(tmp_path: Path, answer: Any) -> None:
    scene = Scene(tmp_path, HASTY)
    editor = FakeEditor()
    scene.attach(editor)
    editor.then = answer
    report = await scene.change(a_bad="fine\n")
    assert (report.verdict, report.silent) == ("no_fresh_answer", ("VS Code",))


async def test_two_windows_of_the_same_name_are_two_editors(tmp_path: Path) -> None:
    scene = Scene(tmp_path, HASTY)
    quick, slow = FakeEditor(), FakeEditor()
    for window in (quick, slow):
        scene.attach(window)
    (path,) = scene.write(a_bad="fine\n")
    slow.then = pending
    assert lines(await scene.change(a_bad="BAD\nfine\n")) == [("a.bad", 1)]
    assert lines(await scene.change(a_bad="BAD\nfine\nmore\n")) == [], "the quick one has told of it before"
    late = await scene.services.overdue([path])
    assert late is not None and lines(late) == [("a.bad", 1)], "the slow one still owed it"


async def test_diagnostics_answered_late_are_reported_once(scene: Scene) -> None:
    editor = FakeEditor()
    scene.attach(editor)
    scene.write(a_bad="BAD of old\n")
    await scene.change(a_bad="BAD of old\nfine\n")
    editor.then = pending
    path = scene.root / "a.bad"
    assert (await scene.change(a_bad="BAD of old\nBAD\n")).verdict == "no_fresh_answer"
    late = await scene.services.overdue([path])
    assert late is not None and (late.verdict, lines(late)) == ("problems", [("a.bad", 2)])
    assert await scene.services.overdue([path]) is None


async def test_editor_with_stale_text_is_asked_again_after_it_updates(
    tmp_path: Path,
) -> None:
    stale: dict[Path, str] = {}

    async def read(path: Path) -> str | None:
        return await read_source(path, stale.get)

    async def about_what_is_shown(editor: FakeEditor, question: dict[str, Any]) -> Any:
        if stale:
            await never(editor, question)
        return editor.truth(question)

    scene = Scene(tmp_path, EditorTiming(answer_s=2 * HANG_S, baseline_s=5.0), read)
    editor = FakeEditor()
    editor.then = about_what_is_shown
    scene.attach(editor)
    [path] = scene.write(a_bad="fine\n")
    run = await scene.services.begin([path])
    scene.write(a_bad="BAD\n")
    # Opened before the write, told of after it: as if the person had the old text there, unsaved.
    stale[path] = "fine\n"
    asked = asyncio.ensure_future(run.report())
    await until(lambda: len(editor.asked) == 2, "the question")
    scene.services.buffer_changed(path)
    scene.services.buffer_changed(path.with_name("other.bad"))
    stale.clear()
    scene.services.buffer_changed(path)
    report = await asyncio.wait_for(asked, HANG_S)
    assert (report.verdict, lines(report), report.silent) == ("problems", [("a.bad", 1)], ())
    hashes = [question["files"][0]["textHash"] for question in editor.asked[1:]]
    assert hashes == [text_hash("fine\n"), text_hash("BAD\n")]
    assert editor.asked[2]["since"] == editor.asked[1]["since"]
    assert editor.asked[2]["timeoutMs"] <= editor.asked[1]["timeoutMs"], "one deadline for all questions"


async def test_editor_that_leaves_ends_the_wait(scene: Scene) -> None:
    editor = FakeEditor()
    peer = scene.attach(editor)
    editor.then = never
    scene.write(a_bad="x")
    run = await scene.services.begin([scene.root / "a.bad"])
    asking = asyncio.create_task(run.report())
    await until(lambda: len(editor.asked) == 2, "the question")
    scene.peers.remove(peer)
    report = await asyncio.wait_for(asking, 3)
    assert (report.verdict, report.silent) == ("no_fresh_answer", ("VS Code",))
    assert (await scene.change(a_bad="y")).servers == ("own",)


async def test_editor_hanging_before_the_write_is_replaced_by_servers(tmp_path: Path) -> None:
    scene = Scene(tmp_path, HASTY)
    scene.peers.add(EditorPeer("stuck", lambda method, params: never(FakeEditor(), {})))
    report = await scene.change(a_bad="x")
    assert (report.verdict, report.servers) == ("clean", ("own",))


ODD: list[Any] = [
    None,
    [],
    "no",
    {},
    {"generation": "1", "files": []},
    {"generation": 1, "files": "no"},
    {"generation": 1, "files": [None, 3, {}, {"uri": 1}]},
    {"generation": 1, "files": [{"uri": "file:///elsewhere", "freshness": "fresh", "diagnostics": []}]},
]


@pytest.mark.parametrize("answer", ODD)
async def test_malformed_answer_is_no_fresh_answer(scene: Scene, answer: Any) -> None:
    async def nonsense(editor: FakeEditor, question: dict[str, Any]) -> Any:
        return answer

    editor = FakeEditor()
    scene.attach(editor)
    editor.then = nonsense
    assert (await scene.change(a_bad="x")).verdict == "no_fresh_answer"


async def test_malformed_diagnostics_are_not_a_clean_answer(
    scene: Scene,
) -> None:
    async def no_list(editor: FakeEditor, question: dict[str, Any]) -> Any:
        answer = editor.truth(question)
        return answer | {"files": [file | {"diagnostics": "none"} for file in answer["files"]]}

    editor = FakeEditor()
    scene.attach(editor)
    editor.then = no_list
    assert (await scene.change(a_bad="x")).verdict == "no_fresh_answer"


async def test_problems_without_a_valid_range_are_still_reported(scene: Scene) -> None:
    items: list[Any] = [
        {"message": "nowhere"},
        {"range": {"start": {"line": 1e400}}, "message": "far"},
        None,
        7,
    ]

    async def odd(editor: FakeEditor, question: dict[str, Any]) -> Any:
        answer = editor.truth(question)
        return answer | {"files": [file | {"diagnostics": items} for file in answer["files"]]}

    editor = FakeEditor()
    scene.attach(editor)
    editor.then = odd
    report = await scene.change(a_bad="x\n")
    assert {problem.message for problem in report.problems} == {"nowhere", "far"}


async def test_ten_thousand_diagnostics_are_bounded(scene: Scene) -> None:
    async def flood(editor: FakeEditor, question: dict[str, Any]) -> Any:
        answer = editor.truth(question)
        many = [diagnostic(n, f"problem {n}", source="many") for n in range(10_000)]
        return answer | {"files": [file | {"diagnostics": many} for file in answer["files"]]}

    editor = FakeEditor()
    scene.attach(editor)
    editor.then = flood
    report = await scene.change(a_bad="x\n" * 10)
    assert len(report.problems) == 20 and report.left_out > 1000
    assert {problem.line for problem in report.problems} == set(range(1, 21))


async def test_at_most_five_broken_files_of_the_workspace_are_reported(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    editor = FakeEditor()
    scene.attach(editor)
    names = [f"o{n}.bad" for n in range(9)]
    for name in names:
        (scene.root / name).write_text("x\n")
    outside = tmp_path_factory.mktemp("outside") / "o.bad"
    outside.write_text("x\n")
    paths = [outside, scene.root / "gone.bad", *(scene.root / name for name in names)]
    editor.others = [
        {"uri": path.as_uri(), "freshness": "fresh", "diagnostics": [diagnostic(0, "broken")], "before": []}
        for path in paths
    ]
    report = await scene.change(a_bad="fine\n")
    assert [problem.path.name for problem in report.problems] == names[:5]


async def test_file_changed_by_a_concurrent_undo_is_not_blamed(scene: Scene) -> None:
    async def restored(editor: FakeEditor, question: dict[str, Any]) -> Any:
        if question["since"]:
            await scene.services.changed(scene.root / "b.bad")
        return editor.truth(question)

    editor = FakeEditor()
    scene.attach(editor)
    scene.write(a_bad="x\n", b_bad="y\n")
    broken = diagnostic(0, "undo restores the previous version.")
    editor.others = [{"uri": (scene.root / "b.bad").as_uri(), "freshness": "fresh", "diagnostics": [broken]}]
    editor.then = restored
    assert lines(await scene.change(a_bad="fine\n")) == []


async def test_deleted_file_is_asked_about_to_find_broken_others(scene: Scene) -> None:
    editor = FakeEditor()
    scene.attach(editor)
    scene.write(a_bad="x\n", b_bad="y\n")
    editor.others = [
        {
            "uri": (scene.root / "b.bad").as_uri(),
            "freshness": "fresh",
            "diagnostics": [diagnostic(0, "a.bad is gone")],
        }
    ]
    report = await scene.change(a_bad=None)
    assert lines(report) == [("b.bad", 1)]


async def test_file_no_editor_can_show_goes_to_the_servers(scene: Scene) -> None:
    scene.attach(FakeEditor())
    (scene.root / "a.bad").write_bytes(b"\xff\xfe\x00bad")
    await scene.services.begin([scene.root / "a.bad"])
    assert scene.servers.begun == [scene.root / "a.bad"]


async def test_extended_batch_compares_each_file_first_to_last_text(scene: Scene) -> None:
    scene.attach(FakeEditor())
    scene.write(a_bad="x\n", b_bad="y\n", c_py="z\n")
    a, b, c = (scene.root / name for name in ("a.bad", "b.bad", "c.py"))
    run = await scene.services.begin([a])
    scene.write(a_bad="BAD\n")
    await run.extend([a, b, c])
    scene.write(a_bad="x\nfine\n", b_bad="BAD\n")
    report = await run.report()
    assert lines(report) == [("b.bad", 1)]
    assert scene.servers.begun == [c]
    run.drop()
    assert scene.servers.ended == 1


async def test_reading_warms_a_server_only_if_no_editor_covers_it(
    scene: Scene,
) -> None:
    editor = FakeEditor()
    scene.attach(editor)
    bad, other = scene.write(a_bad="x", b_py="y")
    scene.services.warm(bad)
    scene.services.warm(other)
    await until(lambda: scene.servers.warmed == [other], "the server")
    await until(lambda: len(editor.asked) == 2, "two trials")
    assert all(question["patient"] for question in editor.asked)
    scene.services.warm(other)
    await until(lambda: scene.servers.warmed == [other, other], "the server again")
    assert len(editor.asked) == 2, "what is known is not asked again"
    scene.peers.add(EditorPeer("another", FakeEditor("another", (".py",)).answer))
    scene.services.warm(other)
    await scene.services.close()
    assert scene.servers.warmed == [other, other], "another editor may look after it"


async def test_window_is_not_judged_by_a_trial_from_before_it_came(tmp_path: Path) -> None:
    scene, go_on = Scene(tmp_path), asyncio.Event()

    async def slow(editor: FakeEditor, question: dict[str, Any]) -> Any:
        if len(editor.asked) == 1:
            await go_on.wait()
        return editor.truth(question)

    bare = FakeEditor("no extension", suffixes=())
    bare.then = slow
    scene.attach(bare)
    [path] = scene.write(a_bad="fine\n")
    trial = asyncio.create_task(scene.editors.warm(path))
    await until(lambda: bare.asked, "the trial")
    scene.attach(FakeEditor())
    async with asyncio.timeout(HANG_S):
        assert await scene.editors.warm(path), "the new window is tried"
    go_on.set()
    assert not await trial
    assert await scene.editors.warm(path), "the first trial is not remembered"


async def test_current_problems_come_from_editor_and_servers(scene: Scene) -> None:
    scene.attach(FakeEditor())
    bad, other = scene.write(a_bad="fine\nBAD\n", b_py="y")
    found = await scene.services.current([bad, other])
    assert [(problem.path, problem.line) for problem in found.problems] == [(bad, 2)]
    assert found.servers == ("VS Code", "own")
    assert scene.servers.begun == [other]


async def test_peer_answering_after_its_deadline_is_harmless() -> None:
    late = asyncio.Event()

    async def answer(method: str, params: object) -> str:
        await late.wait()
        raise RuntimeError("too late, and wrong")

    peer = EditorPeer("slow", answer)
    with pytest.raises(PeerGoneError, match="did not answer"):
        await peer.ask("x", {}, 0.01)
    late.set()
    await asyncio.sleep(0)
    peer.gone.set()
    with pytest.raises(PeerGoneError, match="gone"):
        await peer.ask("x", {}, 10)


def test_addresses_are_written_as_the_editor_writes_them(tmp_path: Path) -> None:
    real = tmp_path / "real folder"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    link = (tmp_path / "link").as_uri()
    file = (real / "a b.py").resolve()
    assert uri_in([], [link], file) == f"{link}/a%20b.py"
    assert uri_in(["file:///as%3Aopened"], [link], file) == "file:///as%3Aopened"
    assert uri_in([], [], file) == file.as_uri()
    odd = real / os.fsdecode(b"caf\xe9.py")
    assert uri_in([], [link], odd) == f"{link}/caf%E9.py"


def test_texts_are_hashed_without_line_ends_and_byte_order_mark() -> None:
    assert text_hash("\ufeffa\r\nb\rc") == text_hash("a\nb\nc") != text_hash("a\nb\nc\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "generation",
                    "files",
                    "others",
                    "uri",
                    "freshness",
                    "diagnostics",
                    "before",
                    "range",
                    "start",
                    "line",
                )
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_editor_answer_is_parsed_without_an_exception(raw: Any) -> None:
    answer = checked({"generation": 1, "files": [raw], "others": raw})
    assert answer is not None
    checked(raw)
    json.dumps([dict(item) for file in answer.files.values() for item in file.diagnostics])


def test_flood_of_problems_is_truncated_to_the_worst() -> None:
    many = [diagnostic(n, "x", severity=2) for n in range(MAX_RAW)] + [diagnostic(0, "the error")]
    answer = checked({"generation": 1, "files": [{"uri": "u", "freshness": "fresh", "diagnostics": many}]})
    assert answer is not None
    kept = answer.files["u"].diagnostics
    assert (len(kept), kept[-1]["message"]) == (MAX_RAW, "the error")
