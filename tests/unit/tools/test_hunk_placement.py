from __future__ import annotations

import hashlib

import pytest

from tests.support.scenarios.patches import applied
from tools.tool import ToolError

HEAD = "--- a/x.txt\n+++ b/x.txt\n"
FUNCTIONS = b"""class A:
    def one(self):
        x = 1
        return x

    def two(self):
        x = 1
        return x


class B:
    def one(self):
        x = 1
        return x

    def three(self):
        y = 1
        return y
"""

RUSSIAN = "Сценарий обработки заказов, основная часть\nдля каждого заказа выполнить проверку\n— c\n"


def ok(patch: str, old: bytes, fuzz: int = 2) -> bytes:
    result = applied(patch, old, fuzz)
    assert isinstance(result, bytes), result
    return result


def no(patch: str, old: bytes, fuzz: int = 2) -> str:
    result = applied(patch, old, fuzz)
    assert isinstance(result, ToolError), result
    return str(result)


def update(body: str) -> str:
    return f"*** Begin Patch\n*** Update File: x.txt\n{body}*** End Patch\n"


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()[:8]


# -- unique or refused --


def test_two_places_are_refused_with_their_lines() -> None:
    message = no(HEAD + "@@ -6,2 +6,2 @@\n-        x = 1\n+        x = 2\n", FUNCTIONS)
    assert "hunk 1 (@@ -6,2 +6,2 @@) fits 3 places, at lines 3, 7, 13" in message


def test_hunk_order_resolves_otherwise_ambiguous_places() -> None:
    old = b"a\nx\nb\nx\nc\n"
    assert ok(update("@@\n-x\n+1\n@@\n-x\n+2\n"), old) == b"a\n1\nb\n2\nc\n"
    assert ok(update("@@\n-b\n+B\n@@\n-x\n+2\n"), old) == b"a\nx\nB\n2\nc\n"
    assert "fits 2 places" in no(update("@@\n-x\n+1\n@@\n-c\n+C\n"), old)


def test_rising_numbers_are_needed_to_trust_the_order() -> None:
    old = b"a\nx\nb\nx\nc\n"
    patch = HEAD + "@@ -3 +3 @@\n-b\n+B\n@@ -2 +2 @@\n-x\n+1\n"
    assert "fits 2 places" in no(patch, old)


def test_all_wrong_line_numbers_do_not_affect_the_order() -> None:
    old = b"a\nx\nb\nx\nc\n"
    patch = HEAD + "@@ -9 +9 @@\n-a\n+A\n@@ -4 +4 @@\n-b\n+B\n@@ -7 +7 @@\n-x\n+y\n"
    assert ok(patch, old) == b"A\nx\nB\ny\nc\n"


def test_hunks_out_of_order_land_when_each_is_unique() -> None:
    assert ok(update("@@\n-c\n+C\n@@\n-a\n+A\n"), b"a\nb\nc\n") == b"A\nb\nC\n"


def test_hunks_about_the_same_lines_are_refused() -> None:
    assert "overlap" in no(update("@@\n-b\n+B\n@@\n a\n-b\n+C\n"), b"a\nb\nc\n")
    assert "overlap" in no(update("@@\n a\n+B\n@@\n a\n+B\n"), b"a\nb\nc\n")


def test_neighbouring_hunks_may_share_context() -> None:
    assert ok(update("@@\n a\n-b\n+B\n c\n@@\n c\n-d\n+D\n"), b"a\nb\nc\nd\n") == b"a\nB\nc\nD\n"


# -- numbers --


def test_line_number_alone_does_not_resolve_ambiguity() -> None:
    assert "fits 2 places" in no(HEAD + "@@ -3 +3 @@\n-x\n+y\n", b"x\na\nx\n")


def test_numbers_decide_when_another_hunk_proves_them() -> None:
    old = b"u\n" + b"a\nx\nb\n" * 3
    patch = HEAD + "@@ -1 +1,2 @@\n-u\n+U\n+V\n@@ -5,3 +6,3 @@\n a\n-x\n+y\n b\n"
    assert ok(patch, old) == b"U\nV\na\nx\nb\na\ny\nb\na\nx\nb\n"
    for wrong in ("-5,3 +5,3", "-6,3 +7,3", "-5,4 +6,4"):
        assert "fits 3 places" in no(patch.replace("-5,3 +6,3", wrong), old)
    assert "fits 3 places" in no(patch.replace("-1 +1,2", "-2 +2,2"), old)


def test_the_hashes_of_the_index_line_prove_the_numbers() -> None:
    old, new = b"x\nx\nx\n", b"x\nx\nnew\nx\n"
    index = f"diff --git a/x.txt b/x.txt\nindex {blob(old)}..{blob(new)} 100644\n"
    insert = "@@ -2,0 +3 @@\n+new\n"
    assert ok(index + HEAD + insert, old) == new
    assert "only adds lines" in no(HEAD + insert, old)
    moved = insert.replace("-2,0 +3", "-1,0 +2")
    assert "only adds lines" in no(index + HEAD + moved, old), "two equal results are no proof of this one"
    assert "already applied" in no(index + HEAD + insert, new)


def test_wrong_line_numbers_with_a_matching_hash_prove_nothing() -> None:
    old, new = b"a\nx\nb\nx\nc\n", b"a\nx\nb\ny\nc\n"
    index = f"diff --git a/x.txt b/x.txt\nindex {blob(old)}..{blob(new)}\n"
    assert ok(index + HEAD + "@@ -4 +4 @@\n-x\n+y\n", old) == new
    assert "fits 2 places" in no(index + HEAD + "@@ -2 +2 @@\n-x\n+y\n", old)


def test_hunk_whose_number_points_to_a_near_twin_is_refused() -> None:
    block = "def f{}():\n    first = 1\n    second = 2\n    third = {}\n    return third\n"
    body = "".join(f"# {n}\n" for n in range(40))
    old = (block.format(1, 33) + body + block.format(1, 3)).encode()
    hunk = "@@ -1,5 +1,5 @@\n def f1():\n     first = 1\n-    second = 2\n+    second = 5\n     third = 3\n"
    assert "where its header points, is nearly the same." in no(HEAD + hunk, old)
    assert ok(HEAD + hunk.replace("-1,5 +1,5", "-20,5 +20,5"), old).endswith(
        b"= 5\n    third = 3\n    return third\n"
    )


def test_hunk_below_another_heading_than_stated_is_refused() -> None:
    old = "class A:\n    x = 1\n    y = 3\n\n" + "# between\n" * 9 + "class B:\n    x = 1\n    y = 2\n"
    hunk = "@@ -2,2 +2,2 @@ class {}:\n     x = 1\n-    y = 2\n+    y = 5\n"
    far = hunk.replace("-2,2 +2,2", "-60,2 +60,2")
    assert "not below 'class A:'" in no(HEAD + far.format("A"), old.encode())
    assert ok(HEAD + far.format("Elsewhere"), old.encode()).endswith(b"y = 5\n")
    # Its own heading speaks for the place, though the stated line reads nearly the same.
    assert ok(HEAD + hunk.format("B"), old.encode()).endswith(b"y = 5\n")
    assert "where its header points, is nearly the same." in no(HEAD + hunk.format("Elsewhere"), old.encode())


def test_short_hunk_is_not_applied_to_the_twin_of_a_changed_line() -> None:
    old = (
        b"def a():\n    x = 1\n    if value is None:\n        return None\n    return x\n\n\n"
        b"def b():\n    y = 2\n    if value is None:  # x\n        return None\n    return y\n"
    )
    hunk = "@@ -10,2 +10,2 @@\n-    if value is None:\n-        return None\n+    if not value:\n+        return 0\n"
    assert "but line 10, where its header points, is nearly the same." in no(HEAD + hunk, old)


def test_hunk_follows_the_shift_of_others_not_an_older_twin() -> None:
    block = "    start()\n    run(value)\n    stop()\n    check()\n"
    old = "one\n" + block + "x\n" * 40 + "new\n" * 12 + block.replace("check", "verify") + "z\n" * 20
    old += "alpha\nbeta\ngamma\ndelta\n"
    patch = (
        "@@ -46,4 +46,4 @@\n     start()\n-    run(value)\n+    run(2)\n     stop()\n     check()\n"
        "@@ -70,4 +70,4 @@\n alpha\n-beta\n+BETA\n gamma\n delta\n"
    )
    assert "where its header points, is nearly the same." in no(HEAD + patch, old.encode())


def test_hunk_shifted_like_another_hunk_is_accepted() -> None:
    old = "new\n" * 20 + "a\nb\nc\nd\n" + "m\n" * 30 + "alpha\nbeta\ngamma\ndelta\n"
    patch = "@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n d\n@@ -35,4 +35,4 @@\n alpha\n-beta\n+BETA\n gamma\n delta\n"
    assert ok(HEAD + patch, old.encode()) == old.replace("b\nc", "B\nc").replace("beta", "BETA").encode()


# -- headings --


def test_a_heading_narrows_to_its_block() -> None:
    change = "@@ {}\n-        x = 1\n+        x = 2\n"
    got = ok(update(change.format("    def two(self):")), FUNCTIONS)
    assert got == FUNCTIONS.replace(b"two(self):\n        x = 1", b"two(self):\n        x = 2")
    for heading in ("def two", "def two(self):", "two(self)"):
        assert ok(update(change.format(heading)), FUNCTIONS) == got


def test_stacked_headings_narrow_in_sequence() -> None:
    got = ok(update("@@ class B\n@@ def one\n-        x = 1\n+        x = 2\n"), FUNCTIONS)
    head, tail = FUNCTIONS.split(b"class B")
    assert got == head + b"class B" + tail.replace(b"x = 1", b"x = 2")
    assert "fits 2 places" in no(update("@@ def one\n-        x = 1\n+        x = 2\n"), FUNCTIONS)


def test_heading_whose_block_lacks_the_lines_is_refused() -> None:
    old = b"def a():\n    x = 2\n\ndef b():\n    x = 1\n\ndef c():\n    x = 1\n"
    assert isinstance(applied(update("@@ def a():\n-    x = 1\n+    x = 3\n"), old), ToolError)


def test_missing_or_later_heading_is_refused() -> None:
    old = b"a\nb\nhead\nc\n"
    assert "no line of the file reads 'nowhere'" in no(update("@@ nowhere\n-b\n+B\n"), old)
    assert "but not below 'head'" in no(update("@@ head\n-b\n+B\n"), old)


def test_text_after_git_hunk_numbers_is_no_heading() -> None:
    assert ok(HEAD + "@@ -1 +1 @@ def elsewhere():\n-b\n+B\n", b"a\nb\n") == b"a\nB\n"


# -- looser rungs --


@pytest.mark.parametrize(
    ("old", "hunk", "new"),
    [
        (b"a  \nb\t\n c\n", " a\n-b\n+B\n  c\n", b"a  \nB\n c\n"),
        (b"a\n\nb\n", " a\n   \n-b\n+B\n", b"a\n\nB\n"),
        (b"if x:\n    a\n    b\n", " a\n-b\n+B\n+if c:\n+    d\n", b"if x:\n    a\n    B\n    if c:\n        d\n"),
        (b"if x:\n\ta\n\tb\n", "     a\n-    b\n+    B\n", b"if x:\n\ta\n\tB\n"),
        ("a = “x”\nb\n".encode(), ' a = "x"\n-b\n+B\n', "a = “x”\nB\n".encode()),
        ("s = ‘a’ – b\n".encode(), "-s = 'a' - b\n+s = 'a' - c\n", "s = ‘a’ – c\n".encode()),
    ],
)  # fmt: skip
def test_insignificant_differences_match_and_context_is_kept(old: bytes, hunk: str, new: bytes) -> None:
    assert ok(update("@@\n" + hunk), old) == new


@pytest.mark.parametrize("hunk", ["-a = 1\n+c\n", "-a  =  2\n+c\n", " b\n-a = 2\n+c\n", "-A = 2\n+c\n"])
def test_difference_within_a_line_does_not_match(hunk: str) -> None:
    assert "fits nowhere" in no(update("@@\n" + hunk), b"a = 2\nb\n")


def test_whitespace_only_change_is_not_applied_twice() -> None:
    hunks = "@@\n if x:\n-  a\n+    a\n"
    once = ok(update(hunks), b"if x:\n  a\n")
    assert once == b"if x:\n    a\n"
    assert "already applied" in no(update(hunks), once)


@pytest.mark.parametrize(
    ("old", "hunk"),
    [
        (b"a\nc\n", " a\n+b\n c\n"),
        (b"a\n", " a\n+b\n"),
        (b"c\n", "+b\n c\n"),
        (b"a\nb\n", " a\n-b\n+b1\n+b2\n"),
        (b"a\nb\nc\n", " a\n-b\n c\n"),
        (b"a\nx\nc\n", " a\n-x\n+y\n c\n"),
    ],
)
def test_applied_hunk_is_not_applied_again(old: bytes, hunk: str) -> None:
    once = ok(update("@@\n" + hunk), old)
    assert "already applied" in no(update("@@\n" + hunk), once)


def test_applied_and_re_indented_hunk_is_not_applied_again() -> None:
    hunk = update("@@\n-foo()\n+if c:\n+    foo()\n")
    once = ok(hunk, b"def f():\n    foo()\n")
    assert once == b"def f():\n    if c:\n        foo()\n"
    assert "already applied" in no(hunk, once)


# -- fuzz --

LONG = "".join(f"line {n}\n" for n in range(40))


def test_dropped_context_is_bounded_by_fuzz() -> None:
    hunk = (
        "@@ -10,7 +10,7 @@\n line 9\n line 10\n line 11\n-line 12\n+changed\n line 13\n line 14\n line 15\n"
    )
    one = LONG.replace("line 14\n", "line 14\nnew\n").encode()
    assert b"changed\nline 13\nline 14\nnew\n" in ok(HEAD + hunk, one, fuzz=1)
    assert "fits nowhere" in no(HEAD + hunk, one, fuzz=0)
    two = LONG.replace("line 13\n", "line 13\nnew\n").encode()
    assert b"changed\nline 13\nnew\nline 14\n" in ok(HEAD + hunk, two, fuzz=2)
    assert "fits nowhere" in no(HEAD + hunk, two, fuzz=1)


def test_removed_lines_are_never_dropped() -> None:
    hunk = "@@ -10,7 +10,7 @@\n line 9\n line 10\n line 11\n-line twelve\n+changed\n line 13\n line 14\n line 15\n"
    message = no(HEAD + hunk, LONG.encode(), fuzz=20)
    assert "the lines it removes are not in the file" in message
    assert "- line twelve\n+ line 12" in message


def test_fuzz_never_matches_the_twin_of_a_changed_block() -> None:
    twin = "def {0}():\n    try:\n        open()\n    except:\n        close()\n        raise\n    return {0}\n\n"
    old = twin.format("a").replace("close()", "shut()") + "# between\n" * 20 + twin.format("b")
    hunk = "     try:\n         open()\n     except:\n-        close()\n+        end()\n         raise\n     return a\n"
    for patch in (HEAD + "@@ -2,6 +2,6 @@\n" + hunk, update("@@\n" + hunk)):
        assert "fits nowhere" in no(patch, old.encode())


def test_two_fuzzy_places_are_refused() -> None:
    assert "of its context lines left out" in no(update("@@\n a\n+new\n b\n"), b"a\nx\nb\n")


# -- line ends and the end of the file --


@pytest.mark.parametrize(
    ("old", "hunk", "new"),
    [
        (b"a\r\nb\r\nc\r\n", " a\n-b\n+1\n+2\n c\n", b"a\r\n1\r\n2\r\nc\r\n"),
        (b"a\nb\r\nc\n", " a\n-b\n+1\n+2\n c\n", b"a\n1\r\n2\r\nc\n"),
        (b"a\r\nb\nc\n", " a\n+1\n b\n", b"a\r\n1\r\nb\nc\n"),
        (b"a\rb\rc\r", " a\n-b\n+B\n c\n", b"a\rB\rc\r"),
        (b"\xef\xbb\xbfa\nb\n", "-a\n+A\n b\n", b"\xef\xbb\xbfA\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", "-\ufeffa\n+\ufeffA\n b\n", b"\xef\xbb\xbfA\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", "-\ufeffa\n+A\n b\n", b"A\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", "-a\n+\ufeffA\n b\n", b"\xef\xbb\xbfA\nb\n"),
        (b"a\nb\n", "-a\n+\ufeffA\n b\n", b"\xef\xbb\xbfA\nb\n"),
        ("Привет, мир\nb\n".encode("cp1251"), " Привет, мир\n-b\n+мир\n", "Привет, мир\nмир\n".encode("cp1251")),
        (RUSSIAN.encode("cp1251"), "-— c\n+— я\n", RUSSIAN.replace("— c", "— я").encode("cp1251")),
        ("a\nbé\nc\n".encode("utf-16"), "-bé\n+É\n", "a\nÉ\nc\n".encode("utf-16")),
        ("# coding: latin-1\nbé\n".encode("latin-1"), "-bé\n+É\n", "# coding: latin-1\nÉ\n".encode("latin-1")),
        (b"a\nb", " a\n-b\n+B\n", b"a\nB"),
        (b"a\nb", " a\n-b\n", b"a"),
        (b"a\nb", "-a\n b\n", b"b"),
        (b"a\r\nb", " a\n-b\n+B\n+C\n", b"a\r\nB\r\nC"),
        (b"a\nb", "-b\n\\ No newline at end of file\n+B\n", b"a\nB\n"),
        (b"a\nb\n", "-b\n+B\n\\ No newline at end of file\n", b"a\nB"),
        (b"a\nb", "-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n", b"a\nB"),
        (b"a\nb", " b\n+c\n", b"a\nb\nc"),
        (b"", "+a\n+b\n", b"a\nb\n"),
        (b"a\n", "+b\n*** End of File\n", b"a\nb\n"),
        (b"a", "+b\n*** End of File\n", b"a\nb"),
        (b"x\na\nx\na\n", " x\n-a\n+b\n*** End of File\n", b"x\na\nx\nb\n"),
    ],
)  # fmt: skip
def test_line_ends_encodings_and_the_last_line(old: bytes, hunk: str, new: bytes) -> None:
    assert ok(update("@@\n" + hunk), old) == new


def test_append_to_a_file_without_final_newline_adds_none() -> None:
    assert ok(HEAD + "@@ -1 +1,2 @@\n a\n+b\n", b"a") == b"a\nb"


def test_a_mark_that_the_file_ends_here_must_be_true() -> None:
    hunk = HEAD + "@@ -1 +1 @@\n-a\n+A\n\\ No newline at end of file\n"
    assert "fits nowhere" in no(hunk, b"a\nb\n")


def test_a_line_that_begins_with_a_backslash_is_no_mark() -> None:
    hunk = HEAD + "@@\n-x\n+z\n y\n\\end{a}\n"
    assert "fits 2 places" in no(hunk, b"\\begin{a}\nx\ny\n\\end{a}\nx\ny\n")


def test_a_patch_may_change_line_ends() -> None:
    hunk = HEAD + "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n"
    assert ok(hunk, b"a\r\nb\n") == b"a\nb\n"
    assert "line ends" in no(hunk, b"a\nb\n")


def test_characters_that_the_encoding_lacks_are_refused() -> None:
    assert "no character" in no(update("@@\n-bé\n+π\n"), "# coding: latin-1\nbé\n".encode("latin-1"))


# -- content that looks like headers --


def test_removed_and_added_lines_may_look_like_file_names() -> None:
    old = b"-- old\nx\n-- drop\ny\n"
    patch = HEAD + "@@ -1,4 +1,4 @@\n--- old\n+++ new\n x\n--- drop\n+++ keep\n y\n"
    assert ok(patch, old) == b"++ new\nx\n++ keep\ny\n"
    last = HEAD + "@@ -1,2 +1,2 @@\n x\n--- drop\n+++ keep\n@@ -9 +9 @@\n-z\n+Z\n"
    assert ok(last, b"x\n-- drop\ny\nz\n") == b"x\n++ keep\ny\nZ\n"


def test_removed_dash_is_not_a_mail_signature() -> None:
    assert ok(HEAD + "@@ -1,2 +1 @@\n a\n-- \n", b"a\n- \nb\n") == b"a\nb\n"
    assert ok(HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n-- \n2.39.5\n\n", b"a\nb\n") == b"a\nB\n"


def test_blank_lines_between_added_lines_are_added() -> None:
    assert ok(update("@@\n a\n+1\n\n+2\n b\n"), b"a\nb\n") == b"a\n1\n\n2\nb\n"


def test_blank_lines_around_a_hunk_are_layout() -> None:
    assert ok(update("@@\n\n a\n-b\n+B\n\n@@\n\n-d\n+D\n\n"), b"a\nb\nc\nd\n") == b"a\nB\nc\nD\n"


def test_a_blank_line_amid_counted_changes_is_refused_as_unclear() -> None:
    patch = HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\n- a bullet, or a line?\n"
    assert "changes follow" in no(patch, b"a\nb\n\n a bullet, or a line?\n")
